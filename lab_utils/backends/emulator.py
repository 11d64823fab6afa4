"""Backend `emulator`: the GPU's kernels, kernels/spmm/*.cu, run on the host lane by lane.

It checks and counts what they do: a race, a missing wait or an access out of bounds raises
KernelFault, and `recording()` collects a KernelTrace of every product. Sums are fp32, but inside
one mma fp64: what a tensor core does there is not specified, so a GPU's results may differ by fp32
rounding.
"""

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.analysis.checked import is_integer
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.backends.kernels import (
    KERNELS,
    block_rows_of,
    check_weights,
    kernel_of,
    name_of,
    ways_of,
)
from lab_utils.backends.launch import ALIGN, NO_EPILOGUE, Epilogue
from lab_utils.backends.plan import Plan
from lab_utils.backends.simt import KernelFault, Machine, apart
from lab_utils.backends.ways import FUSED, TILES, forced_way
from lab_utils.formats import SparseMatrix

__all__ = ["KernelFault", "KernelTrace", "recording"]

name = "emulator"
devices = ("cpu",)
formats = tuple(KERNELS)

MOST_PARTS = 4096  # few rows have up to 2112 of them on an H200


@dataclass
class _Recording:
    split_k: float = 1
    watch: int | None = None
    traces: list[KernelTrace] = field(default_factory=list)


_recording: ContextVar[_Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(*, split_k: float = 1, watch: int | None = None) -> Iterator[list[KernelTrace]]:
    """Within this context, each product of this backend appends its KernelTrace to the list.

    `split_k`: parts that the K loop is split in, each of which may need memory as large as C.
    `watch`: number of the block (x fastest) whose every request is kept. Raises ValueError for a
    number that is out of range.
    """
    if not isinstance(split_k, Real) or not 1 <= split_k <= MOST_PARTS:  # also refuses NaN
        raise ValueError(f"split_k={split_k!r}: allowed: 1 to {MOST_PARTS}")
    if watch is not None and not (is_integer(watch) and watch >= 0):
        raise ValueError(f"watch={watch!r}: allowed: None, or the number of a block, from 0")
    token = _recording.set(now := _Recording(split_k, watch))
    try:
        yield now.traces
    finally:
        _recording.reset(token)


def problem() -> str | None:
    """Why this backend does not work here, or None if it does."""
    try:
        machine()
    except (RuntimeError, OSError) as error:
        return str(error)
    return None


@functools.cache
def machine() -> Machine:
    """The machine that runs kernels/spmm. Raises RuntimeError where it cannot be built."""
    return Machine(build.load("emulator"))


def plan(A: SparseMatrix, B: Tensor) -> Plan:
    """Which kernel serves A [M, K] · B [K, N], in which blocks."""
    N, way = B.shape[1], _way(A)
    kernel = kernel_of(A.name, way)
    splits = (_recording.get() or _Recording()).split_k
    choices = kernel.choices(A, N, _layout(A, N, splits, way)) | {
        "split_k": f"{splits} (recording(split_k=...) changes it)",
        "threads": f"{torch.get_num_threads()} of the host (torch.get_num_threads())",
    }
    return Plan(name, name_of(A.name, way), choices, splits)


def _way(A: SparseMatrix) -> str:
    """FUSED, or TILES if that is forced: cuBLAS is not here, to multiply what is decoded before."""
    return TILES if forced_way(A.name, ways_of(A.name)) == TILES else FUSED


def _layout(A: SparseMatrix, N: int, splits: float, way: str) -> Any:
    """How the kernel is laid out for N columns on a GPU of one multiprocessor."""
    check_weights(A)
    return kernel_of(A.name, way).layout_of(A, N, 1, splits)


def spmm(
    A: SparseMatrix,
    B: Tensor,
    C: Tensor,
    split_k: float | None = None,
    epilogue: Epilogue = NO_EPILOGUE,
) -> None:
    """C[M, N] = A[M, K] · B[K, N]: the same bits in every run, for any number of host threads.

    `split_k` overrides that of `recording()`. Raises KernelFault, naming kernel, line, block, warp,
    lane and address, where the kernel does what it must not.
    """
    now = _recording.get() or _Recording()
    (M, N), K, splits = C.shape, B.shape[0], split_k or now.split_k
    way = _way(A)
    zeros = -K % block_rows_of(A, way)
    columns = torch.nn.functional.pad(B.T, (0, zeros))
    columns = apart(torch.nn.functional.pad(columns, (0, -(K + zeros) % ALIGN), value=torch.nan))
    columns = columns[:, : K + zeros]
    result = apart(C.new_full((N, M), torch.nan))
    launch = kernel_of(A.name, way).launch_of(A, N, _layout(A, N, splits, way), apart)
    launch.set_epilogue(epilogue, apart)
    scratch = launch.scratch(lambda shape: apart(torch.full(shape, torch.nan, device="cpu")))
    launch.problem.B, launch.problem.ldb = columns.data_ptr(), columns.stride(0)
    launch.problem.C, launch.problem.ldc = result.data_ptr(), M
    trace = machine().run(
        *launch.call, ctypes.byref(launch.problem), None,
        read=launch.arrays | {"B": columns},
        written={"C": result, **scratch},
        watch=now.watch,
        awaited=("B", "bias"),
    )  # fmt: skip
    now.traces.append(trace)
    C.copy_(result.T)
