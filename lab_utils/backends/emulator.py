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

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.backends import cuda, hopper, hopper_wgmma
from lab_utils.backends.kernel_trace import KernelFault, KernelTrace
from lab_utils.backends.plan import Plan
from lab_utils.backends.simt import Machine, apart
from lab_utils.formats import SparseMatrix

__all__ = ["KernelFault", "KernelTrace", "recording"]

name = "emulator"
devices = ("cpu",)
formats = cuda.formats


@dataclass
class _Recording:
    split_k: int = 1
    watch: int | None = None
    traces: list[KernelTrace] = field(default_factory=list)


_recording: ContextVar[_Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(*, split_k: int = 1, watch: int | None = None) -> Iterator[list[KernelTrace]]:
    """Within this context, each product of this backend appends its KernelTrace to the list.

    `split_k`: parts that the K loop is split in. `watch`: number of the block (x fastest) whose
    every request is kept. Raises ValueError for a number that is out of range.
    """
    if split_k < 1:
        raise ValueError(f"split_k={split_k}: allowed: 1 or more")
    if watch is not None and watch < 0:
        raise ValueError(f"watch={watch}: allowed: None, or the number of a block, from 0")
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
    splits = (_recording.get() or _Recording()).split_k
    if A.name == hopper.FORMAT:
        layout, blocks = _hopper_layout(A, B.shape[1], splits)
        return Plan(name, f"{A.name}_mma", hopper.choices(A, B.shape[1], layout, blocks), splits)
    if A.name == hopper_wgmma.FORMAT:
        choices = hopper_wgmma.choices(A, B.shape[1], _wgmma_layout(A, B.shape[1], splits))
        return Plan(name, f"{A.name}_wgmma", choices, splits)
    N, shape = B.shape[1], _shape(A, B.shape[1])
    blocks = cuda.rows_of(A, shape) * -(-N // shape.block_n)
    choices = {
        "blocks": f"{blocks} of {shape.block_m} x {shape.block_n} of C, {shape.threads} threads, "
        f"{shape.shared_bytes / 1024:.0f} KB shared memory",
        "split_k": f"{splits} (recording(split_k=...) changes it)",
        "threads": f"{torch.get_num_threads()} of the host (torch.get_num_threads())",
    }
    return Plan(name, f"{A.name}_mma", choices, splits)


def _shape(A: SparseMatrix, N: int) -> cuda.Shape:
    asked, shape = cuda.problem_of(A, N, sm90=True), cuda.Shape()
    machine().library.lscd_cuda_shape(
        cuda.FORMAT_NUMBER[A.name], ctypes.byref(asked), ctypes.byref(shape)
    )
    return shape


def spmm(A: SparseMatrix, B: Tensor, C: Tensor, split_k: float | None = None) -> None:
    """C[M, N] = A[M, K] · B[K, N]: the same bits in every run, for any number of host threads.

    `split_k` overrides that of `recording()`. Raises KernelFault, naming kernel, line, block, warp,
    lane and address, where the kernel does what it must not.
    """
    now = _recording.get() or _Recording()
    (M, N), K, splits = C.shape, B.shape[0], split_k or now.split_k
    columns = apart(torch.nn.functional.pad(B.T, (0, -K % cuda.ALIGN), value=torch.nan))[:, :K]
    result = apart(C.new_full((N, M), torch.nan))
    launch = _LAUNCHES.get(A.name, _launch)(A, N, splits)
    scratch = launch.scratch(lambda shape: apart(torch.full(shape, torch.nan)))
    launch.problem.B, launch.problem.ldb = columns.data_ptr(), columns.stride(0)
    launch.problem.C, launch.problem.ldc = result.data_ptr(), M
    trace = machine().run(
        *launch.call, ctypes.byref(launch.problem), None,
        read=launch.arrays | {"B": columns},
        written={"C": result, **scratch},
        watch=now.watch,
        awaited=("B",),
    )  # fmt: skip
    now.traces.append(trace)
    C.copy_(result.T)


def _launch(A: SparseMatrix, N: int, splits: float) -> cuda.Launch:
    arrays = {array: apart(A.arrays[array]) for array in cuda.ARRAYS[A.name]}
    problem = cuda.problem_of(A, N, sm90=True)
    problem.early = True
    problem.A = (ctypes.c_void_p * 5)(*(array.data_ptr() for array in arrays.values()))
    sums = cuda.share_out(problem, A, _shape(A, N), splits)
    return cuda.Launch(("lscd_cuda_spmm", cuda.FORMAT_NUMBER[A.name]), problem, sums, arrays)


def _hopper_launch(A: SparseMatrix, N: int, splits: float) -> cuda.Launch:
    layout, blocks = _hopper_layout(A, N, splits)
    arrays = {name: apart(array) for name, array in hopper.operands(A, layout, blocks).items()}
    problem = hopper.problem_of(A, N, layout, blocks, arrays)
    sums = hopper.sums_of(A, N, layout, blocks)
    return cuda.Launch(("lscd_cuda_hopper",), problem, sums, arrays)


def _hopper_layout(A: SparseMatrix, N: int, splits: float) -> tuple[hopper.Layout, int]:
    hopper.check_weights(A)
    layout = hopper.layout_of(A, N)
    return layout, hopper.blocks_per_slice(A, layout, 1, splits)


def _wgmma_launch(A: SparseMatrix, N: int, splits: float) -> cuda.Launch:
    return hopper_wgmma.launch_of(A, N, _wgmma_layout(A, N, splits), apart)


def _wgmma_layout(A: SparseMatrix, N: int, splits: float) -> hopper_wgmma.Layout:
    hopper_wgmma.check_weights(A)
    return hopper_wgmma.layout_of(A, N, 1, splits)


_LAUNCHES = {hopper.FORMAT: _hopper_launch, hopper_wgmma.FORMAT: _wgmma_launch}
