"""Rows of measurements: tidy CSV files under data/measured/<device>/, appended by commands."""

import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from lab_utils.catalog import DATA

MEASURED = DATA / "measured"

COLUMNS: dict[str, tuple[str, ...]] = {
    "spmm": (
        "date", "commit", "device", "driver", "cuda", "kernel", "backend", "M", "K", "N",
        "sparsity", "pattern", "dtype", "split_k", "time_us", "p10_us", "p90_us", "encoded_bytes",
        "gb_per_s", "tflops", "byte_limit_fraction", "relative_error", "dense_us", "speedup",
    ),
}  # fmt: skip


def append(table: str, rows: Iterable[Mapping], folder: Path = MEASURED) -> list[Path]:
    """Append rows to `folder`/<device>/<table>.csv, a file for each device that they name.

    All rows of a device are written in one piece, or none. Raises ValueError where a row does not
    have exactly the columns of the table, or a file's header is another one.
    """
    columns = _columns(table)
    by_device: dict[str, list[Mapping]] = {}
    for row in rows:
        if set(row) != set(columns):
            raise ValueError(f"row has columns {sorted(row)}; {table}.csv needs {sorted(columns)}")
        by_device.setdefault(row["device"], []).append(row)
    paths = [folder / device / f"{table}.csv" for device in by_device]
    for path in paths:
        _check_header(path, columns)
    for path, device_rows in zip(paths, by_device.values(), strict=True):
        _append(path, columns, device_rows)
    return paths


def measured(table: str, folder: Path = MEASURED) -> pd.DataFrame:
    """All stored rows of a table, every device, oldest first; empty with its columns if none."""
    columns = _columns(table)
    files = sorted(folder.glob(f"*/{table}.csv"))
    for file in files:
        _check_header(file, columns)
    frames = [pd.read_csv(file, dtype={"commit": str, "driver": str, "cuda": str}) for file in files]
    if not frames:
        return pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True).sort_values("date", kind="stable")


def latest(rows: pd.DataFrame, keys: Iterable[str]) -> pd.DataFrame:
    """The last measured of the rows that agree in all `keys`."""
    return rows.drop_duplicates(subset=list(keys), keep="last")


def _columns(table: str) -> tuple[str, ...]:
    if table not in COLUMNS:
        raise ValueError(f"table={table!r}: unknown; allowed: {', '.join(COLUMNS)}")
    return COLUMNS[table]


def _check_header(path: Path, columns: tuple[str, ...]) -> None:
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        header = tuple(next(csv.reader(file), ()))
    if header != columns:
        raise ValueError(f"{path}: columns are {','.join(header)}; needs {','.join(columns)}")


def _append(path: Path, columns: tuple[str, ...], rows: list[Mapping]) -> None:
    """One write of whole lines to a file opened for appending: nothing is interleaved or cut."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        writer.writeheader()
    writer.writerows(rows)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, text.getvalue().encode())
    finally:
        os.close(descriptor)
