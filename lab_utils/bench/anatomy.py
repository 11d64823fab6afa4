"""Where a GPU kernel's time goes: the kernel beside builds of it that leave one stage out.

What a stage costs is what the kernel saves without it; kernels/common/stages.cuh says how a stage
is left out, and what that means. All builds of a case take turns, as contenders do everywhere here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch

from lab_utils import ops
from lab_utils.analysis.anatomy import NOTHING, STAGES, stage_times
from lab_utils.backends import Plan, cuda
from lab_utils.baselines import bandwidth
from lab_utils.bench import graphs
from lab_utils.bench.cases import Case
from lab_utils.bench.cuda import Ours
from lab_utils.bench.operands import Weights, cold_buffer
from lab_utils.bench.rows import LeaveOut, raise_failures, spread
from lab_utils.machine import stamp
from lab_utils.results import rounded


@dataclass
class Build(graphs.Replays):
    """Replays of a build of a kernel; `functions` keeps the tensors of its launches alive."""

    functions: Sequence[Callable] = ()


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
    if repeats < 1:
        raise ValueError(f"repeats={repeats!r} must be at least 1")
    check(formats, device)
    weights = weights or Weights(case, seed, device)
    weights.check(case, device)
    _build(formats)
    replays = partial(_replays, case, weights, repeats)
    return timed_in_turns(case, formats, replays, device, leave_out)


def timed_in_turns(
    case: Case,
    formats: Sequence[str],
    replays: Callable[[str, tuple], Iterable[tuple[dict, Build]]],
    device: torch.device,
    leave_out: LeaveOut,
) -> list[dict]:
    """Rows of one case: what `replays(format, pool)` yields for all formats, timed in turns.

    Each is the columns that tell its row apart, and the launches of it.
    """
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    found: list[tuple[dict, Build]] = []
    with torch.cuda.device(device), torch.cuda.stream(stream):
        pool = torch.cuda.graph_pool_handle()
        for format in dict.fromkeys(formats):
            try:
                found += replays(format, pool)
            except AssertionError as error:
                leave_out(case, format, AssertionError(f"{case}: {format} is wrong: {error}"))
        graphs.time_in_turns([build for _, build in found])
    common = stamp(device) | vars(case)
    return [common | what | rounded(spread(build.times_us)) for what, build in found]


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


def _replays(
    case: Case, weights: Weights, repeats: int, format: str, pool: tuple
) -> Iterator[tuple[dict, Build]]:
    """What tells the rows of a format apart, and the launches to time."""
    way, B = Ours(format), weights.columns(case.N)
    A = weights.copies(format, way.prepare, 1)[0].A
    C = B.new_full((case.N, case.M), torch.nan).T
    plan = ops.explain(A, B, backend="cuda")
    launch = partial(cuda.spmm, B=B, C=C, split_k=plan.split_k)
    about_us = checked_us(partial(launch, A), weights, C)
    launches = graphs.launches_per_replay(about_us)
    copies = weights.copies(format, way.prepare, launches)[:launches]
    for left_out in (None, *STAGES[format]):
        functions = [partial(launch, copy.A, left_out=left_out) for copy in copies]
        functions[0]()  # loads the kernel, which a capture must not
        replay = graphs.capture(functions, launches, pool)
        yield _what(plan, left_out), Build(replay, launches, repeats, functions=functions)


def checked_us(launch: Callable[[], None], weights: Weights, C: torch.Tensor) -> float:
    """About how many µs a launch takes, once C is known to be right in every element."""
    flush = partial(bandwidth.read_all, cold_buffer(C.device)[0])
    first_us = graphs.timed(launch, flush)[1]
    weights.judge(C.shape[1]).check(C)
    return min(first_us, graphs.timed(launch, flush)[1])


def _what(plan: Plan, left_out: str | None) -> dict:
    columns = {"kernel": plan.kernel, "split_k": round(plan.split_k, 3)}
    return columns | {"left_out": left_out or NOTHING}
