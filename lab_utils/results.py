"""Rows of measurements: tidy CSV files under data/measured/<device>/, appended by commands."""

import codecs
import csv
import fcntl
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from lab_utils.catalog import DATA
from lab_utils.files import locked, writing

MEASURED = DATA / "measured"

COLUMNS: dict[str, tuple[str, ...]] = {
    "spmm": (
        "date", "commit", "device", "driver", "cuda", "kernel", "backend", "M", "K", "N",
        "sparsity", "pattern", "dtype", "split_k", "time_us", "p10_us", "p90_us", "encoded_bytes",
        "gb_per_s", "tflops", "byte_limit_fraction", "relative_error", "dense_us", "speedup",
    ),
    "encode": (
        "date", "commit", "device", "driver", "cuda", "format", "options", "M", "K", "sparsity",
        "pattern", "dtype", "time_us", "p10_us", "p90_us", "dense_gb_per_s", "encoded_bytes",
    ),
    "stages": (
        "date", "commit", "device", "driver", "cuda", "kernel", "M", "K", "N", "sparsity",
        "pattern", "dtype", "split_k", "left_out", "time_us", "p10_us", "p90_us",
    ),
    "counters": (
        "date", "commit", "device", "driver", "cuda", "kernel", "M", "K", "N", "sparsity",
        "pattern", "dtype", "split_k", "metric", "unit", "value",
    ),
    "counts": (
        "date", "commit", "device", "driver", "cuda", "kernel", "M", "K", "N", "sparsity",
        "pattern", "dtype", "split_k", "function", "metric", "emulator", "ncu",
    ),
    "shares": (
        "date", "commit", "device", "driver", "cuda", "kernel", "M", "K", "N", "sparsity",
        "pattern", "dtype", "workers", "chosen", "time_us", "p10_us", "p90_us",
    ),
    "ladder": (
        "date", "commit", "device", "driver", "cuda", "rung", "format", "M", "K", "N", "sparsity",
        "pattern", "dtype", "split_k", "time_us", "p10_us", "p90_us", "encoded_bytes",
        "byte_limit_fraction", "relative_error", "dense_us", "speedup",
    ),
    "eager": (
        "date", "commit", "device", "driver", "cuda", "format", "M", "K", "N", "sparsity",
        "pattern", "dtype", "encoded_bytes", "relative_error", "time_us", "p10_us", "p90_us",
        "host_us", "graph_us", "dense_us", "dense_graph_us",
    ),
    "energy": (
        "date", "commit", "device", "driver", "cuda", "kernel", "backend", "M", "K", "N",
        "sparsity", "pattern", "dtype", "split_k", "encoded_bytes", "relative_error", "rested_us",
        "time_us", "millijoules", "watts", "sm_mhz", "dense_rested_us", "dense_us",
        "dense_millijoules",
    ),
    "opt": (
        "date", "commit", "device", "driver", "cuda", "model", "gpus", "format", "sparsity",
        "weights", "batch", "prompt", "output", "seconds", "tokens_per_gpu_second", "peak_gb",
        "matmul_s", "attention_s", "communication_s", "other_s",
    ),
    "opt_energy": (
        "date", "commit", "device", "driver", "cuda", "model", "gpus", "format", "sparsity",
        "weights", "batch", "prompt", "output", "seconds", "joules", "watts", "sm_mhz",
    ),
    "steps": (
        "date", "commit", "device", "driver", "cuda", "model", "blocks", "sparsity", "batch",
        "dtype", "format", "called", "model_bytes", "relative_error", "time_ms", "p10_ms", "p90_ms",
        "host_ms", "dense_ms",
    ),
}  # fmt: skip
CASE = ("M", "K", "N", "sparsity", "pattern", "dtype")  # what makes rows comparable
KERNEL_CASE = (*CASE, "kernel")  # each beside the dense baseline of its own run
OPT_CASE = ("model", "gpus", "format", "sparsity", "weights", "batch", "prompt", "output")
STEP_CASE = ("model", "blocks", "sparsity", "batch", "dtype", "called")
TEXT = ("commit", "driver", "cuda", "options")  # could be taken for numbers, or are empty
NAMES = (
    "date", "device", "kernel", "backend", "format", "pattern", "dtype", "left_out", "metric",
    "unit", "function", "rung", "model", "weights", "called",
)  # fmt: skip
DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"  # which are in order as texts are


def append(table: str, rows: Iterable[Mapping], folder: Path | None = None) -> list[Path]:
    """Append rows to `folder`/<device>/<table>.csv, a file for each device that they name.

    `folder` is data/measured unless given. All rows of a device are written in one piece, or none.
    Raises ValueError where a row does not have exactly the columns of the table, or a device that
    a folder can be called, or a file is not such a table; RuntimeError where a file cannot be
    written.
    """
    columns = _columns(table)
    by_device: dict[str, list[Mapping]] = {}
    for row in rows:
        _check_row(table, row)
        by_device.setdefault(row["device"], []).append(row)
    paths = [(folder or MEASURED) / device / f"{table}.csv" for device in by_device]
    for path in paths:
        _check_file(path, columns)
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
    columns = _columns(table)
    _check_device(device)
    path = (folder or MEASURED).absolute() / device / f"{table}.csv"
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    needs = os.W_OK | (os.R_OK if there == path else os.X_OK)
    if not (os.access(there, needs) and there.is_file() == (there == path)):
        raise RuntimeError(
            f"{argument}={str(folder or MEASURED)!r}: {there} cannot be written to; allowed: a "
            f"folder in which {device}/{table}.csv can be written"
        )
    _check_file(path, columns)


def measured(table: str, folder: Path | None = None) -> pd.DataFrame:
    """All stored rows of a table, every device, oldest first; empty with its columns if none.

    Raises ValueError where a file has other columns.
    """
    frames = []
    for file in files_of(table, folder):
        with locked(file, os.O_RDONLY, fcntl.LOCK_SH):
            frames.append(of_file(file))
    if not frames:
        return pd.DataFrame(columns=_columns(table))
    rows = pd.concat(frames, ignore_index=True)
    return rows.sort_values("date", kind="stable", ignore_index=True)


def files_of(table: str, folder: Path | None = None) -> list[Path]:
    """The files of a table that have something: of each device <table>.csv, to which `append` adds,
    and older parts <table>-1.csv, <table>-2.csv and so on. A file near 5 MB is renamed to the next
    number (git mv), and `append` begins a new one.

    Raises ValueError where one has other columns.
    """
    columns, places = _columns(table), (folder or MEASURED).glob(f"*/{table}*.csv")
    found = sorted(file for file in places if re.fullmatch(rf"{table}(-\d+)?\.csv", file.name))
    for file in found:
        _check_file(file, columns)
    return [file for file in found if file.stat().st_size]


def of_file(file: Path) -> pd.DataFrame:
    """The rows of one of `files_of`, as they follow each other.

    Raises ValueError where it has no rows, and for a date or a number that is none.
    """
    try:
        texts = dict.fromkeys((*TEXT, *NAMES), str)
        rows = pd.read_csv(file, dtype=texts, keep_default_na=False, na_values=["", "nan"])
    except ValueError as error:
        raise ValueError(f"{file} cannot be read as rows: {error}") from error
    if not isinstance(rows.index, pd.RangeIndex):  # pandas would take the first column for names
        raise ValueError(f"{file} cannot be read as rows: they have more fields than columns")
    _check_cells(file, "date", rows["date"].str.fullmatch(DATE), rows, "2026-01-31T12:00:00+00:00")
    for name in rows.columns.difference(texts):
        if not pd.api.types.is_numeric_dtype(rows[name]):
            read = pd.to_numeric(rows[name], errors="coerce").notna()
            _check_cells(file, name, read, rows, "numbers, or nothing")
    return rows.fillna({name: "" for name in TEXT if name in rows})


def _check_cells(
    file: Path, name: str, good: pd.Series, rows: pd.DataFrame, allowed: str
) -> None:
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


def rounded(numbers: dict[str, float]) -> dict[str, float]:
    """Five digits of each: more than any clock gives."""
    return {name: float(f"{number:.5g}") for name, number in numbers.items()}


def _columns(table: str) -> tuple[str, ...]:
    if table not in COLUMNS:
        raise ValueError(f"table={table!r}: unknown; allowed: {', '.join(COLUMNS)}")
    return COLUMNS[table]


def _check_row(table: str, row: Mapping) -> None:
    columns = _columns(table)
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


def _check_file(path: Path, columns: tuple[str, ...]) -> None:
    """A table with these columns, and whole lines: or else nothing is read or added."""
    if not path.exists():
        return
    with path.open("rb") as file:  # the ends alone: a sweep adds to a long table case by case
        fcntl.flock(file, fcntl.LOCK_SH)  # or else a line that others are writing seems to be cut
        if not os.fstat(file.fileno()).st_size:
            return
        header = _header(path, file.readline())
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
    if header != columns:
        raise ValueError(f"{path}: columns are {','.join(header)}; needs {','.join(columns)}")
    if last != b"\n":
        raise ValueError(f"{path}: the last line is cut; restore the file first")


def _header(path: Path, line: bytes) -> tuple[str, ...]:
    if line.startswith(codecs.BOM_UTF8):  # which some spreadsheets write, and no editor shows
        raise ValueError(f"{path} starts with a byte order mark; store it as UTF-8 without one")
    try:
        return tuple(next(csv.reader([line.decode()]), ()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no CSV table in UTF-8: {error}") from error


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
