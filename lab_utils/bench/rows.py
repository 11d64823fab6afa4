"""What was measured of a kernel, and the row of `results.COLUMNS["spmm"]` that it becomes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from lab_utils.bench.cases import Case
from lab_utils.machine import stamp
from lab_utils.results import rounded

LeaveOut = Callable[[Case, str, str | Exception], object]


@dataclass(kw_only=True)
class Measured:
    """A kernel of a case: `times_us` are those of single launches, `encoded_bytes` those of A."""

    kernel: str
    backend: str
    encoded_bytes: int
    dense: bool = False
    split_k: float = 1
    relative_error: float = 0.0
    times_us: list[float] = field(default_factory=list)


def raise_failures(case: Case, kernel: str, why: str | Exception) -> None:
    """The strict way to leave a kernel out: one that cannot run here, never one that failed."""
    if isinstance(why, Exception):
        raise why


def rows(
    case: Case, device: torch.device, measured: Sequence[Measured], memory_gb_per_s: float
) -> list[dict]:
    """Rows of one run. Raises RuntimeError where it holds no dense product to compare with."""
    dense = [np.median(one.times_us) for one in measured if one.dense]
    if not dense:
        raise RuntimeError(f"{case}: no dense product was measured; rows need dense_us")
    common = stamp(device) | vars(case)
    return [common | row(case, one, memory_gb_per_s, min(dense)) for one in measured]


def row(case: Case, measured: Measured, memory_gb_per_s: float, best_dense_us: float) -> dict:
    """The columns that differ between the kernels of a case."""
    times = spread(measured.times_us)
    median = times["time_us"]
    gb_per_s = measured.encoded_bytes / median / 1e3
    numbers = times | {
        "gb_per_s": gb_per_s,
        "tflops": 2 * case.M * case.K * case.N / median / 1e6,
        "byte_limit_fraction": gb_per_s / memory_gb_per_s,
        "relative_error": measured.relative_error,
        "dense_us": best_dense_us,
        "speedup": best_dense_us / median,
    }
    return {
        "kernel": measured.kernel,
        "backend": measured.backend,
        "split_k": round(measured.split_k, 3),
        "encoded_bytes": measured.encoded_bytes,
        **rounded(numbers),
    }


def spread(times_us: Sequence[float]) -> dict[str, float]:
    """Median and range of times, in the columns that they have in every table."""
    p10, median, p90 = map(float, np.percentile(times_us, [10, 50, 90]))
    return {"time_us": median, "p10_us": p10, "p90_us": p90}
