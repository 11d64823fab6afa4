"""Rows of measurements: tidy CSV files under data/measured/<device>/, appended by commands.

`tables` says which columns they have, `appending` adds rows, `reading` gives them back, and
`superseded` takes out those that later runs replace.
"""

from lab_utils.results.appending import append, check_writable, rounded
from lab_utils.results.reading import check_stored, latest, measured, of_file, of_last_run
from lab_utils.results.tables import CASE, COLUMNS, KERNEL_CASE, OPT_CASE, STEP_CASE, files_of

__all__ = [
    "CASE",
    "COLUMNS",
    "KERNEL_CASE",
    "OPT_CASE",
    "STEP_CASE",
    "append",
    "check_stored",
    "check_writable",
    "files_of",
    "latest",
    "measured",
    "of_file",
    "of_last_run",
    "rounded",
]
