"""Where a GPU kernel's time goes: the kernel beside builds of it that leave one stage out.

What a stage costs is what the kernel saves without it; kernels/common/stages.cuh says how a stage
is left out, and what that means. All builds of a case take turns (`turns`).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pandas as pd
import torch

from lab_utils.analysis.anatomy import NOTHING, STAGES, stage_times
from lab_utils.backends import cuda
from lab_utils.bench.cases import Case, check_repeats
from lab_utils.bench.operands import Weights, weights_of
from lab_utils.bench.rows import LeaveOut, raise_failures
from lab_utils.bench.turns import Product, Way, timed_in_turns


def measure_stages(
    case: Case,
    formats: Sequence[str],
    *,
    device: torch.device | str = "cuda",
    repeats: int = 30,
    seed: int = 0,
    weights: Weights | None = None,
    leave_out: LeaveOut = raise_failures,
) -> list[dict]:
    """Rows of `results.COLUMNS["stages"]`: each kernel whole, checked, and without each stage.

    All builds of a kernel split K as the whole one does. For `bench.sweep`; takes what `measure`
    does. Raises AssertionError where the whole kernel is wrong in any element, ValueError for a
    format whose kernel has no stages to leave out, RuntimeError where there is no GPU.
    """
    device = torch.device(device)
    check_repeats(repeats)
    check(formats, device)
    weights = weights_of(case, seed, device, weights)
    _build(formats)
    ways = partial(_ways, case, weights, repeats)
    return timed_in_turns(case, formats, ways, device, leave_out)


def check(formats: Sequence[str], device: torch.device | str = "cuda") -> None:
    """Raise ValueError unless these kernels have stages, RuntimeError where they cannot run."""
    for format in formats:
        if format not in STAGES:
            raise ValueError(f"format={format!r}: no stages known; allowed: {', '.join(STAGES)}")
    if torch.device(device).type != "cuda":
        raise ValueError(f"device={str(device)!r}; allowed: cuda, since CPU kernels have no stages")
    if problem := cuda.problem():
        raise RuntimeError(f"nothing can be measured on a GPU here: {problem}")
    for format in formats:
        if reason := cuda.format_problem(format, torch.device(device)):
            raise RuntimeError(reason)


def multiplied_formats() -> list[str]:
    """Formats whose kernels have stages; without those that the GPU here cannot multiply."""
    if cuda.problem():
        return list(STAGES)
    device = torch.device("cuda")
    return [format for format in STAGES if not cuda.format_problem(format, device)]


def stage_summary(rows: list[dict]) -> str:
    """Rows of `stages` as a table for a terminal: times whole, and without each stage."""
    table = stage_times(pd.DataFrame(rows)).droplevel(["device", "pattern", "dtype"])
    return f"µs without …\n{table.to_string(float_format='{:.1f}'.format, na_rep='')}"


def _build(formats: Sequence[str]) -> None:
    """Compile whatever is missing, all builds at the same time: each leaves most cores idle."""
    left_out = dict.fromkeys(stage for format in formats for stage in STAGES[format])
    with ThreadPoolExecutor(len(left_out)) as pool:
        list(pool.map(cuda.library, left_out))


def _ways(
    case: Case, weights: Weights, repeats: int, format: str, pool: tuple
) -> Iterator[tuple[dict, Way]]:
    """What tells the rows of a format apart, and the launches to time."""
    product = Product.checked(case, weights, format)
    split_k = product.plan.split_k
    columns = {"kernel": product.plan.kernel, "split_k": round(split_k, 3)}
    for left_out in (None, *STAGES[format]):
        way = product.way(repeats, pool, split_k=split_k, left_out=left_out)
        yield columns | {"left_out": left_out or NOTHING}, way
