"""The tables of measured rows: their columns, what makes rows comparable, and their files.

Each device has a folder under data/measured with a file <table>.csv of each table.
"""

import codecs
import csv
import fcntl
import os
import re
from pathlib import Path

from lab_utils.catalog import DATA

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
        "weights", "dtype", "batch", "prompt", "output", "seconds", "tokens_per_gpu_second",
        "peak_gb", "matmul_s", "attention_s", "communication_s", "other_s",
    ),
    "opt_energy": (
        "date", "commit", "device", "driver", "cuda", "model", "gpus", "format", "sparsity",
        "weights", "dtype", "batch", "prompt", "output", "seconds", "joules", "watts", "sm_mhz",
    ),
    "steps": (
        "date", "commit", "device", "driver", "cuda", "model", "blocks", "sparsity", "batch",
        "dtype", "format", "called", "model_bytes", "relative_error", "time_ms", "p10_ms", "p90_ms",
        "host_ms", "dense_ms",
    ),
}  # fmt: skip
CASE = ("M", "K", "N", "sparsity", "pattern", "dtype")  # what makes rows comparable
KERNEL_CASE = (*CASE, "kernel")  # each beside the dense baseline of its own run
OPT_CASE = (
    "model", "gpus", "format", "sparsity", "weights", "dtype", "batch", "prompt", "output",
)  # fmt: skip
STEP_CASE = ("model", "blocks", "sparsity", "batch", "dtype", "called")
TEXT = ("commit", "driver", "cuda", "options")  # could be taken for numbers, or are empty
NAMES = (
    "date", "device", "kernel", "backend", "format", "pattern", "dtype", "left_out", "metric",
    "unit", "function", "rung", "model", "weights", "called",
)  # fmt: skip
DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"  # which are in order as texts are


def columns_of(table: str) -> tuple[str, ...]:
    """Of a table, in order; ValueError for an unknown one."""
    if table not in COLUMNS:
        raise ValueError(f"table={table!r}: unknown; allowed: {', '.join(COLUMNS)}")
    return COLUMNS[table]


def folder_of(folder: str | Path | None) -> Path:
    """data/measured, or another `folder`."""
    return MEASURED if folder is None else Path(folder)


def files_of(table: str, folder: Path | None = None) -> list[Path]:
    """The files of a table that have something: of each device <table>.csv, to which `append` adds,
    and older parts <table>-1.csv, <table>-2.csv and so on. A file near 5 MB is renamed to the next
    number (git mv), and `append` begins a new one.

    Raises ValueError where one has other columns.
    """
    columns, places = columns_of(table), folder_of(folder).glob(f"*/{table}*.csv")
    found = sorted(file for file in places if re.fullmatch(rf"{table}(-\d+)?\.csv", file.name))
    for file in found:
        check_file(file, columns)
    return [file for file in found if file.stat().st_size]


def check_file(path: Path, columns: tuple[str, ...]) -> None:
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
