"""Contenders on the GPU: every baseline, dense and sparse, and our kernels of each format."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor

from lab_utils import baselines, ops
from lab_utils.analysis.variants import variant_of, with_variants
from lab_utils.backends import Plan, cuda
from lab_utils.backends.kernels import ways_of
from lab_utils.backends.published import is_hopper
from lab_utils.baselines import Baseline, bandwidth
from lab_utils.bench import graphs
from lab_utils.bench.cases import Case, check_formats
from lab_utils.bench.graphs import Replays
from lab_utils.bench.operands import Weights, cold_buffer
from lab_utils.bench.rows import LeaveOut, Measured
from lab_utils.formats import SparseMatrix, encode_variant

DEFAULT_FORMATS = cuda.formats
# With more columns a kernel reads A several times, or is not fast: all ways are measured.
ONE_WAY = 64


class Encoded(baselines.Operand):
    """One of our encodings, as an operand like those of the baselines."""

    def __init__(self, A: SparseMatrix, dense: Tensor):
        super().__init__(A.arrays, dense)
        self.A = A

    def clone(self) -> Self:
        return Encoded(self.A.clone(), self._dense)


class Ours(Baseline):
    """Our products of a format, or of a variant of one, behind the calls of a baseline.

    `way`: one of `cuda.WAYS`, or None for the one that the plan takes.
    """

    def __init__(self, format: str, way: str | None = None):
        self.name, self.way = format, way
        self.format = variant_of(format).format

    def _taken(self) -> AbstractContextManager:
        return nullcontext() if self.way is None else cuda.forced(self.way)

    def problem(self, W: Tensor, N: int) -> str | None:
        return cuda.format_problem(self.format, W.device)

    def prepare(self, W: Tensor) -> Encoded:
        return Encoded(encode_variant(W, self.name), W)

    def bind(self, operand: Encoded, B: Tensor) -> Callable[[], Tensor]:
        C = B.new_full((B.shape[1], operand.shape[0]), torch.nan).T

        def run() -> Tensor:
            with self._taken():
                return ops.spmm(operand.A, B, backend="cuda", out=C)

        return run

    def plan(self, operand: Encoded, B: Tensor) -> Plan:
        """What a row says of a launch: the kernel that our backend chooses, and its split of K.

        The kernel of a variant is named after that.
        """
        with self._taken():
            plan = ops.explain(operand.A, B, backend="cuda")
        return replace(plan, kernel=plan.kernel.replace(self.format, self.name, 1))


def ours(formats: Sequence[str], N: int, sm90: bool) -> Iterator[Ours]:
    """Our products of these formats with N columns: as planned, or all ways of the format."""
    for format in dict.fromkeys(formats):
        for way in ways_of(variant_of(format).format, sm90) if N > ONE_WAY else (None,):
            yield Ours(format, way)


@dataclass(kw_only=True)
class Contender(Measured):
    """A checked way to the product: a function for each copy of A, and the time of a launch."""

    way: Baseline
    functions: list[Callable[[], Tensor]]
    about_us: float


def check(formats: Sequence[str], names: Sequence[str] | None, isas: Sequence[str]) -> None:
    """Raise ValueError unless a GPU can measure these."""
    check_formats(formats, with_variants(cuda.formats), "GPU")
    for name in names or ():
        if name not in baselines.BASELINES:
            allowed = ", ".join(baselines.BASELINES)
            raise ValueError(f"baseline={name!r}: unknown; allowed: {allowed}")
    if not any(baseline.dense for baseline in _chosen(names)):
        dense = ", ".join(name for name, one in baselines.BASELINES.items() if one.dense)
        raise ValueError(f"baselines={names!r}: rows need a dense product; add one of {dense}")
    if isas:
        raise ValueError(f"isas={list(isas)!r}: of the CPU; allowed with cuda: none")


def run(
    case: Case,
    weights: Weights,
    formats: Sequence[str],
    names: Sequence[str] | None,
    repeats: int,
    leave_out: LeaveOut,
) -> tuple[list[Contender], float]:
    """Check and time all contenders of a case; returns them, and the bandwidth in GB/s."""
    ways = contenders(case, formats, names, weights.device)
    return run_ways(case, weights, ways, repeats, leave_out)


def contenders(
    case: Case, formats: Sequence[str], names: Sequence[str] | None, device: torch.device
) -> list[Baseline]:
    """Baselines of these names, all unless given, and our products of these formats."""
    return [*_chosen(names), *ours(formats, case.N, is_hopper(device))]


def run_ways(
    case: Case, weights: Weights, ways: Sequence[Baseline], repeats: int, leave_out: LeaveOut
) -> tuple[list[Contender], float]:
    """The same for these ways to the product."""
    device = weights.device
    with on_stream(device):
        right = list(checked(case, weights, ways, leave_out))
        pool = torch.cuda.graph_pool_handle()
        replays = [replays_of(case, one, repeats, pool) for one in right]
        memory = _memory(device, repeats, pool)
        graphs.time_in_turns([*replays, memory])
        for contender, timed in zip(right, replays, strict=True):
            contender.times_us = timed.times_us
        piece_bytes = cold_buffer(device).shape[1]
        return right, piece_bytes / float(np.median(memory.times_us)) / 1e3


def _chosen(names: Sequence[str] | None) -> list[Baseline]:
    wanted = baselines.BASELINES if names is None else dict.fromkeys(names)
    return [baselines.BASELINES[name] for name in wanted]


@contextmanager
def on_stream(device: torch.device) -> Iterator[None]:
    """What is launched inside runs behind all before, where graphs can be captured."""
    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device), torch.cuda.stream(stream):
        yield


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Where everything runs: graphs cannot be captured on the default stream."""
    return torch.cuda.Stream(device)


def checked(
    case: Case, weights: Weights, ways: Sequence[Baseline], leave_out: LeaveOut
) -> Iterator[Contender]:
    """The contenders that can run and are right in every element."""
    for way in ways:
        if reason := way.problem(weights.dense, case.N):
            leave_out(case, way.name, reason)
            continue
        try:
            yield _contender(case, weights, way)
        except (AssertionError, RuntimeError, MemoryError) as error:
            _check_gpu(case, way.name)
            torch.cuda.empty_cache()
            leave_out(case, way.name, _explained(error, case, way.name))


def _check_gpu(case: Case, kernel: str) -> None:
    """After some errors CUDA runs nothing more in this process: then nothing goes on."""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise RuntimeError(f"{case}: kernel {kernel} broke the GPU's context: {error}") from error


def _explained(error: Exception, case: Case, kernel: str) -> Exception:
    """The same kind of error, naming the case and the kernel."""
    if isinstance(error, AssertionError):
        return AssertionError(f"{case}: kernel {kernel} is wrong: {error}")
    out_of_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    what = "ran out of GPU memory" if out_of_memory else "failed"
    return RuntimeError(f"{case}: kernel {kernel} {what}: {error}")


def _contender(case: Case, weights: Weights, way: Baseline) -> Contender:
    """Run a way once for its result, which is judged, once for its time; make its copies of A."""
    B = weights.columns(case.N)
    operand = weights.copies(way.name, way.prepare, 1)[0]
    launch = way.bind(operand, B)
    C, first_us = graphs.timed(launch, _read_buffer)
    error = weights.judge(case.N, operand.represented()).check(C, way.roundings)
    _, again_us = graphs.timed(launch, _read_buffer)
    about_us = min(first_us, again_us)  # the first launch may also have loaded the kernel
    launches = graphs.launches_per_replay(about_us)
    copies = weights.copies(way.name, way.prepare, launches)[:launches]
    plan = way.plan(operand, B) if isinstance(way, Ours) else Plan("baseline", way.name)
    return Contender(
        kernel=plan.kernel,
        backend=plan.backend,
        split_k=plan.split_k,
        encoded_bytes=operand.nbytes,
        dense=way.dense,
        relative_error=error,
        way=way,
        functions=[launch, *(way.bind(copy, B) for copy in copies[1:])],
        about_us=about_us,
    )


def replays_of(case: Case, contender: Contender, repeats: int, pool: tuple) -> Replays:
    """Launches of a contender, captured where it can be."""
    launches = graphs.launches_per_replay(contender.about_us)
    count = graphs.replays_within_budget(contender.about_us, repeats)
    if not contender.way.capturable:
        return Replays(graphs.uncaptured(contender.functions, launches), launches, count)
    try:
        return Replays(graphs.capture(contender.functions, launches, pool), launches, count)
    except RuntimeError as error:  # torch's allocator does not recover from it, so all ends
        what = f"{case}: kernel {contender.kernel} cannot be captured: {error}"
        raise RuntimeError(what) from error


def _read_buffer() -> None:
    """Drive everything else out of the cache; takes longer than Python needs for a launch."""
    for piece in cold_buffer(torch.device("cuda", torch.cuda.current_device())):
        bandwidth.read_all(piece)


def _memory(device: torch.device, repeats: int, pool: tuple) -> Replays:
    """Reads of memory, in the same turns: the byte limit of this very run."""
    pieces = [partial(bandwidth.read_all, piece) for piece in cold_buffer(device)]
    return Replays(graphs.capture(pieces, len(pieces), pool), len(pieces), repeats)
