"""Measuring encoders: from dense weights on a device to an encoding there, all of it."""

import time
from collections.abc import Callable, Sequence

import pandas as pd
import torch

from lab_utils import ops
from lab_utils.bench.cases import Case
from lab_utils.bench.measuring import check, checked_device
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures, spread
from lab_utils.bench.tables import text_table, times
from lab_utils.formats import SparseMatrix, by_name, encode
from lab_utils.machine import stamp
from lab_utils.results import rounded

# The options of a format's `encode` that are measured one by one.
VARIANTS: dict[str, tuple[dict, ...]] = {
    "tiled_csl": ({"reorder": True}, {"reorder": False}),
    "zero_row_24": ({"reach": 8}, {"reach": -1}),
    "zero_row_24_strips": ({"reach": 8}, {"reach": -1}),
}


def measure_encoders(
    case: Case,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cpu",
    repeats: int = 15,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of `results.COLUMNS["encode"]`: encoding A on `device` in each of `formats`.

    Times are those of `encode`, allocations and the reading back of sizes included, until the
    arrays are there. What comes out is multiplied by B [K, N] and judged before it is timed.
    Takes and raises what `measure` does.
    """
    device = checked_device(device)
    check(formats, device, repeats)
    for format in formats:
        by_name(format)  # variants are options here
    weights = weights_of(case, seed, device, weights)
    found = []
    for format in dict.fromkeys(formats):
        for options in VARIANTS.get(format, ({},)):
            try:
                found.append(_measured(case, weights, format, options, repeats))
            except AssertionError as error:
                leave_out(case, format, AssertionError(f"{case}: {format} is wrong: {error}"))
            except ValueError as error:  # 2:4 holds only some matrices
                leave_out(case, format, ValueError(f"{case}: {format}: {error}"))
    common = stamp(device) | {name: value for name, value in vars(case).items() if name != "N"}
    return [common | row for row in found]


def encode_summary(rows: pd.DataFrame) -> str:
    """Rows of `encode` as a table for a terminal."""
    rows = rows.sort_values(["format", "options", "M", "K", "sparsity"], kind="stable")
    columns = {
        "format": rows.format,
        "options": rows.options,
        **times(rows),
        "dense GB/s": rows.dense_gb_per_s.map("{:.1f}".format),
        "encoded": (rows.encoded_bytes / (2 * rows.M * rows.K)).map("{:.0%}".format),
    }
    return text_table(rows, columns)


def _measured(case: Case, weights: Weights, format: str, options: dict, repeats: int) -> dict:
    A = encode(weights.dense, format, **options)
    weights.judge(case.N).check(ops.spmm(A, weights.columns(case.N)))
    times_us = [
        _microseconds(lambda: encode(weights.dense, format, **options), weights.device)
        for _ in range(repeats)
    ]
    found = spread(times_us)
    numbers = found | {"dense_gb_per_s": weights.dense.nbytes / found["time_us"] / 1e3}
    text = " ".join(f"{name}={value}" for name, value in options.items())
    return {"format": format, "options": text, "encoded_bytes": A.nbytes, **rounded(numbers)}


def _microseconds(run: Callable[[], SparseMatrix], device: torch.device) -> float:
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e6 * (time.perf_counter() - start)
