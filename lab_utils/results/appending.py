"""Appending rows to their table's file: all of them in one piece, or none."""

import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab_utils.files import locked, writing
from lab_utils.results import tables


def append(table: str, rows: Iterable[Mapping], folder: Path | None = None) -> list[Path]:
    """Append rows to `folder`/<device>/<table>.csv, a file for each device that they name.

    `folder` is data/measured unless given. All rows of a device are written in one piece, or none.
    Raises ValueError where a row does not have exactly the columns of the table, or a device that
    a folder can be called, or a file is not such a table; RuntimeError where a file cannot be
    written.
    """
    columns = tables.columns_of(table)
    by_device: dict[str, list[Mapping]] = {}
    for row in rows:
        _check_row(table, row)
        by_device.setdefault(row["device"], []).append(row)
    paths = [tables.folder_of(folder) / device / f"{table}.csv" for device in by_device]
    for path in paths:
        tables.check_file(path, columns)
    for path, device_rows in zip(paths, by_device.values(), strict=True):
        with writing(path):
            _append(path, columns, device_rows)
    return paths


def check_writable(
    table: str, device: str, folder: Path | None = None, argument: str = "folder"
) -> None:
    """Raise what `append` to `folder` would for rows of `device`, before what takes long.

    RuntimeError, which calls the folder `argument`, where its file cannot be written; ValueError
    where it is not such a table.
    """
    columns = tables.columns_of(table)
    _check_device(device)
    place = tables.folder_of(folder)
    path = place.absolute() / device / f"{table}.csv"
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    needs = os.W_OK | (os.R_OK if there == path else os.X_OK)
    if not (os.access(there, needs) and there.is_file() == (there == path)):
        raise RuntimeError(
            f"{argument}={str(place)!r}: {there} cannot be written to; allowed: a folder in which "
            f"{device}/{table}.csv can be written"
        )
    tables.check_file(path, columns)


def rounded(numbers: dict[str, float]) -> dict[str, float]:
    """Five digits of each: more than any clock gives."""
    return {name: float(f"{number:.5g}") for name, number in numbers.items()}


def _check_row(table: str, row: Mapping) -> None:
    columns = tables.columns_of(table)
    if missing := [name for name in columns if name not in row]:
        raise ValueError(f"a row lacks {', '.join(missing)}; {table}.csv needs {','.join(columns)}")
    if unknown := [name for name in row if name not in columns]:
        raise ValueError(f"a row has {', '.join(unknown)}; {table}.csv has {','.join(columns)}")
    _check_device(row["device"])


def _check_device(device: str) -> None:
    """Rows must not end up in another folder than one of `measured`'s, nor beside it."""
    named = isinstance(device, str) and device.strip() == device and device not in ("", ".", "..")
    if not named or any(letter in "/\\" or not letter.isprintable() for letter in device):
        raise ValueError(f"device={device!r:.60}; allowed: the plain name of a folder")


def _append(path: Path, columns: tuple[str, ...], rows: list[Mapping]) -> None:
    """One write under a lock: runs at the same time do not interleave, nor write two headers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
        size = os.fstat(descriptor).st_size
        _write_all(descriptor, _lines(columns, rows, header=size == 0), size)


def _write_all(descriptor: int, data: bytes, size: int) -> None:
    """Write everything, or leave the file at the `size` that it had."""
    if os.write(descriptor, data) < len(data):
        os.ftruncate(descriptor, size)
        raise OSError("no space left for the rows")


def _lines(columns: tuple[str, ...], rows: list[Mapping], header: bool) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
