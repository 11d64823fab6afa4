"""Rows that a later run of the same case replaces, and how to take them out of data/measured.

Tables grow with every run, and no file of the repository may have more than 5 MB. Nothing that is
drawn needs other than the latest rows; git's history keeps the rest.
"""

import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from lab_utils.files import locked, write_whole, writing
from lab_utils.results.reading import check_filled, of_file, of_last_run
from lab_utils.results.tables import KERNEL_CASE, files_of

TABLES = ("spmm", "energy")  # whose rows are of a kernel, and replace each other


def superseded(rows: pd.DataFrame) -> pd.Series:
    """Which rows are not of the last run of their case and kernel on their device."""
    return ~of_last_run(rows, KERNEL_CASE)


def find(
    table: str,
    kernels: Sequence[str] = (),
    folder: Path | None = None,
    *,
    drop: bool = False,
) -> pd.Series:
    """How many rows are superseded, by file and kernel; with `drop` they are taken out.

    `kernels`: of these alone; `folder` is data/measured unless given. Lines that stay keep their
    bytes and order, and a file is replaced whole or not at all, one after another.
    Raises ValueError for another table, for a kernel without rows, and where a file is not such a
    table, all looked at before any is replaced; OSError where one cannot be read; RuntimeError
    where one cannot be written, with those before it done.
    """
    if table not in TABLES:
        raise ValueError(f"table={table!r}; allowed: {', '.join(TABLES)}")
    files = files_of(table, folder)
    found = {file: _rows(file) for file in files}
    _check_kernels(table, kernels, found.values())
    others = {file: [rows for one, rows in found.items() if one != file] for file in files}
    counts = {
        file: _counts(rows, _gone(rows, kernels, others[file])) for file, rows in found.items()
    }
    if drop:
        counts = {file: _drop(file, kernels, others[file]) for file in files}
    by_name = {str(file): one for file, one in counts.items()}
    return pd.concat(by_name, names=["file", "kernel"]) if by_name else pd.Series(dtype=int)


def _check_kernels(table: str, kernels: Sequence[str], found: Iterable[pd.DataFrame]) -> None:
    known = sorted({str(name) for rows in found for name in rows["kernel"]})
    if unknown := [name for name in kernels if name not in known]:
        allowed = ", ".join(known) or "none, it has no rows"
        raise ValueError(f"kernel={unknown[0]!r} has no rows of {table}; allowed: {allowed}")


def _rows(file: Path) -> pd.DataFrame:
    with locked(file, os.O_RDONLY, fcntl.LOCK_SH):
        return _read(file)[0]


def _read(file: Path) -> tuple[pd.DataFrame, list[bytes]]:
    """Rows, each of which is of a run, and the lines that they are, behind the header's."""
    rows, lines = of_file(file), file.read_bytes().splitlines(keepends=True)
    check_filled(file, rows, "device", *KERNEL_CASE)  # without, it would seem superseded
    if len(lines) != 1 + len(rows):
        raise ValueError(f"{file}: {len(lines) - 1} lines for {len(rows)} rows; allowed: one each")
    return rows, lines


def _gone(rows: pd.DataFrame, kernels: Sequence[str], others: list[pd.DataFrame]) -> pd.Series:
    """`others`: of other files, whose runs may be later ones of the same device."""
    gone = superseded(pd.concat([rows, *others], ignore_index=True))[: len(rows)]
    return gone & (rows["kernel"].isin(kernels) | (not kernels))


def _counts(rows: pd.DataFrame, gone: pd.Series) -> pd.Series:
    return rows["kernel"][gone].value_counts().sort_index()


def _drop(file: Path, kernels: Sequence[str], others: list[pd.DataFrame]) -> pd.Series:
    """The counts of one file, which loses these rows."""
    with writing(file), locked(file, os.O_RDWR):
        rows, (header, *lines) = _read(file)
        gone = _gone(rows, kernels, others)
        if gone.any():
            kept = [line for line, goes in zip(lines, gone, strict=True) if not goes]
            content = b"".join([header, *kept])
            write_whole(file, content)
    return _counts(rows, gone)
