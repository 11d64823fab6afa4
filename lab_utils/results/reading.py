"""Reading rows: all of a table, or the last run of each case."""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lab_utils.files import locked
from lab_utils.results import tables
from lab_utils.results.tables import CASE, DATE, NAMES, TEXT, files_of


def check_stored(device: str, argument: str = "device") -> None:
    """Raise ValueError, which calls it `argument`, for a device of which no table has rows."""
    known = sorted({file.parent.name for table in tables.COLUMNS for file in files_of(table)})
    if device not in known:
        raise ValueError(f"{argument}={device!r} has no rows; allowed: {', '.join(known)}")


def measured(table: str, folder: Path | None = None) -> pd.DataFrame:
    """All stored rows of a table, every device, oldest first; empty with its columns if none.

    Raises ValueError where a file has other columns.
    """
    frames = []
    for file in files_of(table, folder):
        with locked(file, os.O_RDONLY, fcntl.LOCK_SH):
            frames.append(of_file(file))
    if not frames:
        return pd.DataFrame(columns=tables.columns_of(table))
    rows = pd.concat(frames, ignore_index=True)
    return rows.sort_values("date", kind="stable", ignore_index=True)


def of_file(file: Path) -> pd.DataFrame:
    """The rows of one of `files_of`, as they follow each other.

    Raises ValueError where it has no rows, and for a date or a number that is none.
    """
    try:
        texts = dict.fromkeys((*TEXT, *NAMES), str)
        rows = pd.read_csv(
            file, dtype=texts, keep_default_na=False, na_values=["", "nan"], skip_blank_lines=False
        )
    except ValueError as error:
        raise ValueError(f"{file} cannot be read as rows: {error}") from error
    if not isinstance(rows.index, pd.RangeIndex):  # pandas would take the first column for names
        raise ValueError(f"{file} cannot be read as rows: they have more fields than columns")
    check_filled(file, rows, "date")  # which blank lines have not
    _check_cells(file, "date", rows["date"].str.fullmatch(DATE), rows, "2026-01-31T12:00:00+00:00")
    for name in rows.columns.difference(texts):
        if not pd.api.types.is_numeric_dtype(rows[name]):
            read = pd.to_numeric(rows[name], errors="coerce").notna()
            _check_cells(file, name, read, rows, "numbers, or nothing")
    return rows.fillna({name: "" for name in TEXT if name in rows})


def check_filled(file: Path, rows: pd.DataFrame, *names: str) -> None:
    """Raise ValueError for the first row of a file that has nothing in one of these columns."""
    for name in names:
        if (lacks := rows[name].isna()).any():
            line = lacks.argmax() + 2
            raise ValueError(f"{file}: line {line} has no {name}; allowed: rows that have one")


def _check_cells(file: Path, name: str, good: pd.Series, rows: pd.DataFrame, allowed: str) -> None:
    """Raise ValueError for the first cell of a column that has something else than a good value."""
    bad = rows[name].notna() & ~good.fillna(True).astype(bool)
    if bad.any():
        found = rows[name][bad].iloc[0]
        line = bad.argmax() + 2
        raise ValueError(f"{file}: line {line} has {name}={found!r:.60}; allowed: {allowed}")


def latest(rows: pd.DataFrame, case: Sequence[str] = CASE) -> pd.DataFrame:
    """The last run of each case on each device, whole: rows of `spmm` share a dense baseline."""
    return rows[of_last_run(rows, case)].reset_index(drop=True)


def of_last_run(rows: pd.DataFrame, case: Sequence[str] = CASE) -> pd.Series:
    """Which rows `latest` keeps."""
    return rows["date"].eq(rows.groupby(["device", *case])["date"].transform("max"))
