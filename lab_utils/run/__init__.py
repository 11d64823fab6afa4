"""The strict notebook runner: papermill underneath, a report on top.

`reading` reads a notebook, `parameters` what it declares, `profiles` what this kind of machine runs
it with; `execute` runs and returns an `outcome`, `report` writes the HTML, `offline` keeps it free
of the network, `canonical` holds the form in which notebooks are kept.
"""

from lab_utils.run.execute import NOTEBOOKS, OUTPUTS, run
from lab_utils.run.outcome import Result, RunReport

__all__ = ["NOTEBOOKS", "OUTPUTS", "Result", "RunReport", "run"]
