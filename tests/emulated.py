"""Compiling .cu files for the emulator, launching the tests' own ones, and checked products."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from lab_utils import accuracy, spmm, toolchains
from lab_utils.analysis.kernel_trace import Counts, KernelTrace
from lab_utils.backends import emulator, tile_shares
from lab_utils.backends.launch import Epilogue
from lab_utils.backends.problem import Problem
from lab_utils.backends.simt import Machine
from lab_utils.formats.base import SparseMatrix
from lab_utils.toolchains import Emulator

SOURCES = Path(__file__).parent / "kernels"
DTYPES = [torch.float16, torch.bfloat16]


@contextmanager
def tiles_in_parts() -> Iterator[None]:
    """By tiles, pairs have parts of row blocks however few columns A has."""
    tile_shares.shares_of.cache_clear()
    try:
        with mock.patch.object(tile_shares, "COLS_OF_SUMS", 0.0):
            yield
    finally:
        tile_shares.shares_of.cache_clear()


def compiled(source: Path, target: Path) -> Path:
    """The object of a source, quickly made."""
    toolchains.run([*Emulator().compile_command(source, target), "-O0"])
    return target


def linked(objects: list[Path], target: Path) -> Machine:
    """The machine of a library of these objects."""
    toolchains.run(Emulator().link_command([str(path) for path in objects], target))
    return Machine(ctypes.CDLL(str(target)))


def machine_of(name: str, folder: Path) -> Machine:
    """The machine of tests/kernels/<name>.cu."""
    return linked([compiled(SOURCES / f"{name}.cu", folder / f"{name}.o")], folder / f"{name}.so")


def launch(
    machine: Machine, probe: str, A: Tensor, C: Tensor,
    M: int = 1, K: int = 1, watch: int | None = None,
) -> KernelTrace:  # fmt: skip
    """Launch a kernel of tests/kernels with A[0] = A to read and C to write."""
    problem = Problem(M=M, K=K, N=1, C=C.data_ptr())
    problem.A[0] = A.data_ptr()
    arrays = {"read": {"A": A}, "written": {"C": C}}
    return machine.run(f"probe_{probe}", ctypes.byref(problem), **arrays, watch=watch)


def activations(K: int, N: int, dtype: torch.dtype = torch.float16) -> Tensor:
    generator = torch.Generator().manual_seed(N)
    return torch.randn(N, K, generator=generator).add_(0.5).to(dtype).T


def product(A: SparseMatrix, W: Tensor, N: int, split_k: int = 1) -> Tensor:
    """C = A · B in the emulator, right in every element and with the same bits when repeated."""
    B = activations(W.shape[1], N, W.dtype)
    with emulator.recording(split_k=split_k):
        C, again = (spmm(A, B, backend="emulator") for _ in range(2))
    accuracy.check(C, W, B)
    assert torch.equal(C, again)
    return C


def with_epilogue(
    A: SparseMatrix, W: Tensor, N: int, relu: bool, split_k: float | None = None
) -> None:
    """A · B + bias, and the maximum of that with 0, in the emulator: rounded once, afterwards."""
    (M, K), B = W.shape, activations(W.shape[1], N, W.dtype)
    bias, C = torch.randn(M).to(W.dtype), torch.empty(N, M, dtype=W.dtype).T
    emulator.spmm(A, B, C, split_k, Epilogue(bias, relu))
    exact = W.double() @ B.double() + bias.double()[:, None]
    exact = exact.relu() if relu else exact
    eps = torch.finfo(W.dtype).eps
    torch.testing.assert_close(C.double(), exact, rtol=eps, atol=K * 2e-6)


def total(trace: KernelTrace, file: str, function: str, operation: str) -> Counts:
    """Of the lines of a function."""
    places = (p for p in trace.lines if (p.function, p.operation) == (function, operation))
    own = (trace.lines[p] for p in places if Path(p.file).name == file)
    return sum(own, Counts())
