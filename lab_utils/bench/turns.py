"""One GPU kernel launched in several ways, all of them timed in turns.

`anatomy` leaves out a stage each, `shares` takes another number of workers each. The kernel as it
is planned is checked first; contenders take turns, as everywhere here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from lab_utils import ops
from lab_utils.backends import Plan, cuda
from lab_utils.baselines import bandwidth
from lab_utils.bench import graphs
from lab_utils.bench.cases import Case
from lab_utils.bench.cuda import Encoded, Ours, on_stream
from lab_utils.bench.operands import Weights, cold_buffer
from lab_utils.bench.rows import LeaveOut, spread
from lab_utils.formats import SparseMatrix
from lab_utils.machine import stamp
from lab_utils.results import rounded


@dataclass
class Way(graphs.Replays):
    """Replays of one way to launch; `functions` keeps the tensors of its launches alive."""

    functions: Sequence[Callable] = ()


@dataclass
class Product:
    """A format's product of one case, known to be right in every element."""

    plan: Plan
    B: Tensor
    C: Tensor
    copies: Sequence[Encoded]  # of A, for the launches of a replay
    launches: int

    @classmethod
    def checked(cls, case: Case, weights: Weights, format: str) -> Self:
        """Encode, plan, multiply once and judge. Raises AssertionError where C is wrong."""
        make, B = Ours(format).prepare, weights.columns(case.N)
        A = weights.copies(format, make, 1)[0].A
        C = B.new_full((case.N, case.M), torch.nan).T
        with cuda.forced("fused"):
            plan = ops.explain(A, B, backend="cuda")
        about_us = _checked_us(partial(cuda.spmm, A, B, C, plan.split_k), weights, C)
        launches = graphs.launches_per_replay(about_us)
        return cls(plan, B, C, weights.copies(format, make, launches)[:launches], launches)

    @property
    def A(self) -> SparseMatrix:
        return self.copies[0].A

    def way(self, repeats: int, pool: tuple, **options: Any) -> Way:
        """Launches with these `options` of `cuda.spmm`, captured."""
        launch = partial(cuda.spmm, B=self.B, C=self.C, **options)
        functions = [partial(launch, copy.A) for copy in self.copies]
        replay = graphs.capture(functions, self.launches, pool)
        return Way(replay, self.launches, repeats, functions=functions)


def timed_in_turns(
    case: Case,
    formats: Sequence[str],
    ways: Callable[[str, tuple], Iterable[tuple[dict, Way]]],
    device: torch.device,
    leave_out: LeaveOut,
) -> list[dict]:
    """Rows of one case: what `ways(format, pool)` yields for all formats, timed in turns.

    Each is the columns that tell its row apart, and the launches of it.
    """
    found: list[tuple[dict, Way]] = []
    with on_stream(device):
        pool = torch.cuda.graph_pool_handle()
        for format in dict.fromkeys(formats):
            try:
                found += ways(format, pool)
            except AssertionError as error:
                leave_out(case, format, AssertionError(f"{case}: {format} is wrong: {error}"))
        graphs.time_in_turns([way for _, way in found])
    common = stamp(device) | vars(case)
    return [common | what | rounded(spread(way.times_us)) for what, way in found]


def _checked_us(launch: Callable[[], None], weights: Weights, C: Tensor) -> float:
    """About how many µs a launch takes, once C is known to be right in every element."""
    flush = partial(bandwidth.read_all, cold_buffer(C.device)[0])
    first_us = graphs.timed(launch, flush)[1]
    weights.judge(C.shape[1]).check(C)
    return min(first_us, graphs.timed(launch, flush)[1])
