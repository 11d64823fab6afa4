"""Rows that a later run of the same case replaces, and how to take them out of data/measured.

Tables grow with every run, and no file of the repository may have more than 5 MB. Nothing that is
drawn needs other than the latest rows; git's history keeps the rest.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lab_utils import results

TABLES = ("spmm", "energy")  # whose rows are of a kernel, and replace each other


def superseded(rows: pd.DataFrame) -> pd.Series:
    """Which rows are not of the last run of their case and kernel on their device."""
    return ~results.of_last_run(rows, results.KERNEL_CASE)


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
    table, all looked at before any is replaced; RuntimeError or OSError where one cannot be read or
    written, with those before it done.
    """
    if table not in TABLES:
        raise ValueError(f"table={table!r}; allowed: {', '.join(TABLES)}")
    if kernels:
        _check_kernels(table, kernels, results.measured(table, folder)["kernel"].unique())
    files = results.files_of(table, folder)
    counts = {str(file): _of_file(file, kernels, drop=False) for file in files}
    if drop:
        counts = {str(file): _of_file(file, kernels, drop=True) for file in files}
    return pd.concat(counts, names=["file", "kernel"]) if counts else pd.Series(dtype=int)


def _check_kernels(table: str, kernels: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in kernels if name not in known]:
        allowed = ", ".join(sorted(map(str, known))) or "none, it has no rows"
        raise ValueError(f"kernel={unknown[0]!r} has no rows of {table}; allowed: {allowed}")


def _of_file(file: Path, kernels: Sequence[str], drop: bool) -> pd.Series:
    """The counts of one file, by kernel."""
    how = (os.O_RDWR, fcntl.LOCK_EX) if drop else (os.O_RDONLY, fcntl.LOCK_SH)
    try:
        with results.locked(file, *how):
            rows = results.of_file(file)
            _check_rows(file, rows)
            gone = superseded(rows) & (rows["kernel"].isin(kernels) | (not kernels))
            kept = _kept(file, gone)
            if drop and gone.any():
                _replace(file.resolve(), kept)
    except OSError as error:
        done = "written" if drop else "read"
        raise RuntimeError(f"{file}: cannot be {done}: {error.strerror or error}") from error
    return rows["kernel"][gone].value_counts().sort_index()


def _check_rows(file: Path, rows: pd.DataFrame) -> None:
    """A row that lacks what tells its run would seem to be superseded."""
    for name in ("date", "device", *results.KERNEL_CASE):
        if (lacks := rows[name].isna()).any():
            line = lacks.argmax() + 2
            raise ValueError(f"{file}: line {line} has no {name}; allowed: rows that have one")


def _kept(file: Path, gone: pd.Series) -> bytes:
    header, *lines = file.read_bytes().splitlines(keepends=True)
    if len(lines) != len(gone):
        raise ValueError(f"{file}: {len(lines)} lines for {len(gone)} rows; allowed: one each")
    return header + b"".join(line for line, goes in zip(lines, gone, strict=True) if not goes)


def _replace(file: Path, content: bytes) -> None:
    """In one step: whoever reads meanwhile reads the file before or the one behind."""
    beside = file.with_suffix(".csv.new")
    try:
        beside.write_bytes(content)
        beside.chmod(file.stat().st_mode)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
