"""Contenders on the CPU: torch's dense products, and ours with one or more instruction sets."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from lab_utils import accuracy, ops
from lab_utils.backends import cpu
from lab_utils.bench.cases import Case, check_formats
from lab_utils.bench.operands import Turns, Weights, cold_buffer
from lab_utils.bench.rows import LeaveOut, Measured
from lab_utils.formats import SparseMatrix, encode

DEFAULT_FORMATS = ("tca_bme",)
PADDED_N = 8  # columns that torch's dense product is padded to


@dataclass(kw_only=True)
class Contender(Measured):
    """A way to compute the product: `run(weights)` for any of its rotating `copies` of A."""

    copies: Turns
    run: Callable[[object], Tensor]


class Memory:
    """Reads memory in the same turns, a piece each: the byte limit of this very run."""

    def __init__(self) -> None:
        buffer = cold_buffer(torch.device("cpu"))
        self.copies, self.run, self._piece_bytes = Turns(buffer), cpu.read_all, buffer.shape[1]
        self.times_us: list[float] = []

    @property
    def gb_per_s(self) -> float:
        return self._piece_bytes / float(np.median(self.times_us)) / 1e3


def check(formats: Sequence[str], baselines: Sequence[str] | None, isas: Sequence[str]) -> None:
    """Raise ValueError unless the CPU can measure these."""
    check_formats(formats, cpu.formats, "CPU")
    if baselines is not None:
        raise ValueError(f"baselines={list(baselines)!r}: of GPUs; name none on a CPU")


def run(
    case: Case,
    weights: Weights,
    formats: Sequence[str],
    isas: Sequence[str],
    repeats: int,
    leave_out: LeaveOut,
) -> tuple[list[Contender], float]:
    """Check and time all contenders of a case; returns them, and the bandwidth in GB/s."""
    B = weights.columns(case.N).contiguous()
    judge, right = weights.judge(case.N), []
    fitting = list(_fitting(case, weights, formats, leave_out))
    for contender in _contenders(weights, B, fitting, isas, repeats):
        try:
            contender.relative_error = _relative_error(case, contender, judge)
            right.append(contender)
        except AssertionError as error:
            leave_out(case, contender.kernel, error)
    memory = Memory()
    _time_in_turns([*right, memory], repeats)
    return right, memory.gb_per_s


def _fitting(
    case: Case, weights: Weights, formats: Sequence[str], leave_out: LeaveOut
) -> Iterator[str]:
    """The formats that can hold A: 2:4 holds only some matrices."""
    for format in dict.fromkeys(formats):
        try:
            weights.copies(format, partial(encode, format=format), 1)
            yield format
        except ValueError as error:
            leave_out(case, format, ValueError(f"{case}: {format}: {error}"))


def _contenders(
    weights: Weights, B: Tensor, formats: Sequence[str], isas: Sequence[str], repeats: int
) -> Iterator[Contender]:
    """Torch's ways to the dense product (which is fastest depends), then ours."""
    ways = _torch_products(B)
    turns = Turns(weights.copies("torch", lambda W: W, len(ways) * repeats))
    for kernel, product in ways.items():
        yield Contender(kernel=kernel, backend="torch", copies=turns, run=product, dense=True,
                        encoded_bytes=weights.dense.nbytes)  # fmt: skip
    chosen = dict.fromkeys([cpu.choose_isa(B.dtype)[0], *isas])
    for format in dict.fromkeys(["dense", *formats]):
        copies = weights.copies(format, partial(encode, format=format), len(chosen) * repeats)
        turns = Turns(copies)
        for isa in chosen:
            with cpu.forced(isa):
                kernel = ops.explain(copies[0], B, backend="cpu").kernel
            yield Contender(kernel=kernel, backend="cpu", copies=turns, run=_forced(isa, B),
                            dense=format == "dense", encoded_bytes=copies[0].nbytes)  # fmt: skip


def _torch_products(B: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """Dense products W · B; torch's with a single vector can be slower than that with eight."""
    linear, x, N = torch.nn.functional.linear, B.T.contiguous(), B.shape[1]
    ways = {"torch_mm": lambda w: w @ B, "torch_linear": lambda w: linear(x, w).T}
    if N < PADDED_N:
        padded = torch.nn.functional.pad(B, (0, PADDED_N - N))
        ways["torch_mm_padded"] = lambda w: (w @ padded)[:, :N]
    return ways


def _forced(isa: str, B: Tensor) -> Callable[[SparseMatrix], Tensor]:
    def run(A: SparseMatrix) -> Tensor:
        with cpu.forced(isa):
            return ops.spmm(A, B, backend="cpu")

    return run


def _relative_error(case: Case, contender: Contender, judge: accuracy.Judge) -> float:
    try:
        return judge.check(contender.run(contender.copies.next()))
    except AssertionError as error:
        raise AssertionError(f"{case}: kernel {contender.kernel} is wrong: {error}") from error


def _time_in_turns(contenders: Sequence[Contender | Memory], repeats: int) -> None:
    for contender in contenders:  # the first reading of freshly written memory is slower
        for _ in range(contender.copies.count):
            contender.run(contender.copies.next())
    for _ in range(repeats):
        for contender in contenders:
            weights = contender.copies.next()
            start = time.perf_counter()
            contender.run(weights)
            contender.times_us.append(1e6 * (time.perf_counter() - start))
