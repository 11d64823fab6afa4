"""Backend `cpu`: the compiled kernels of kernels/cpu, on host tensors.

The instruction set is chosen at run time: the best that this CPU has and that serves the dtype.
LSCD_CPU_ISA=<name> forces one, as do `isa=` here and `with forced(name):`.
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.backends.plan import Plan
from lab_utils.formats import SparseMatrix

name = "cpu"
devices = ("cpu",)

# Numbered as in kernels/cpu/dispatch.cpp, best last.
ISAS = ("portable", "avx2", "avx512", "avx512bf16", "amx")
BF16_ONLY = ("avx512bf16", "amx")
MULTIPLIES = {
    "portable": "plain C++, fp32 multiply-adds",
    "avx2": "fp32 multiply-adds",
    "avx512": "fp32 multiply-adds",
    "avx512bf16": "vdpbf16ps dot products",
    "amx": "tdpbf16ps tiles",
}
AVX512 = "32 weights by vpexpandw"
SPREADS = {  # how the bitmaps of TCA-BME become weights
    "portable": "weight by weight",
    "avx2": "8 weights by pshufb",
    "avx512": AVX512,
    "avx512bf16": AVX512,
    "amx": AVX512,
}

# Arrays that each format's decoder takes, in the order of kernels/cpu/spmm/decode*.h and
# kernels/cpu/encode/unpack.h; the last one is its values.
ARRAYS = {
    "dense": ("values",),
    "csr": ("row_ptr", "col_idx", "values"),
    "tiled_csl": ("tile_offsets", "words"),
    "tca_bme": ("bitmap", "gt_offset", "values"),
    "2:4": ("values", "indices"),
    "sparta": (
        "two_four_values",
        "two_four_indices",
        "csr_row_ptr",
        "csr_col_idx",
        "csr_values",
    ),
    "zero_row_24": ("chunk_start", "first_chunk", "geometry", "data"),
    "zero_row_24_strips": ("chunk_start", "geometry", "data"),
    "lane_24_strips": ("chunk_start", "data"),
    "bitmap_strips": ("chunk_start", "data"),
    "coded_strips": ("chunk_start", "data"),
}
BLOCKS = {  # of A that are decoded at a time, if not 64 x 64
    "dense": "16 x 64",
    "tiled_csl": "128 x 64",
    "zero_row_24": "64 x K",
    "zero_row_24_strips": "64 x K",
    "lane_24_strips": "64 x K",
    "bitmap_strips": "64 x K",
    "coded_strips": "64 x K",
}
FORMAT_NUMBER = {format: number for number, format in enumerate(ARRAYS)}
formats = tuple(ARRAYS)

_forced: ContextVar[str | None] = ContextVar("forced", default=None)


class _Problem(ctypes.Structure):
    """`Problem` of kernels/cpu/spmm/strip.h."""

    __slots__ = ()
    _fields_ = (
        ("format", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("M", ctypes.c_int64),
        ("K", ctypes.c_int64),
        ("N", ctypes.c_int64),
        ("A", ctypes.c_void_p * 5),
        ("A_values", ctypes.c_int64),
        ("B", ctypes.c_void_p),
        ("B_stride_k", ctypes.c_int64),
        ("B_stride_n", ctypes.c_int64),
        ("C", ctypes.c_void_p),
        ("C_stride_m", ctypes.c_int64),
        ("C_stride_n", ctypes.c_int64),
        ("threads", ctypes.c_int32),
    )


def problem() -> str | None:
    """Why this backend does not work here, or None if it does."""
    try:
        build.load("cpu")
        choose_isa(torch.bfloat16)
    except (RuntimeError, OSError, ValueError) as error:
        return str(error)
    return None


@functools.cache
def supported() -> tuple[str, ...]:
    """Instruction sets of this CPU that there are kernels for, best last."""
    library = build.load("cpu")
    return tuple(isa for i, isa in enumerate(ISAS) if library.lscd_cpu_supports(i))


@contextmanager
def forced(isa: str) -> Iterator[None]:
    """Within this context, products use the given instruction set (one of `supported()`)."""
    token = _forced.set(_check_isa(isa, "isa"))
    try:
        yield
    finally:
        _forced.reset(token)


def choose_isa(dtype: torch.dtype) -> tuple[str, str]:
    """Instruction set for weights of `dtype`, and why. Raises ValueError for a forced misfit."""
    wanted, why = _forced.get(), "forced"
    if wanted is None and (variable := os.environ.get("LSCD_CPU_ISA")):
        wanted, why = _check_isa(variable, "LSCD_CPU_ISA"), "set by LSCD_CPU_ISA"
    fit = [isa for isa in supported() if dtype == torch.bfloat16 or isa not in BF16_ONLY]
    if wanted is None:
        return fit[-1], "the best that this CPU has for this dtype"
    if wanted not in fit:
        raise ValueError(f"isa={wanted!r} multiplies bf16 only; A is {dtype}; allowed: {fit}")
    return wanted, why


def plan(A: SparseMatrix, B: Tensor) -> Plan:
    """Which instruction set serves A [M, K] · B [K, N], and with how many threads."""
    isa, why = choose_isa(A.dtype)
    choices = {
        "isa": f"{isa}: {MULTIPLIES[isa]} ({why})",
        "decodes": f"{BLOCKS.get(A.name, '64 x 64')} at a time, {_step(A.name, isa)}",
        "isas": ", ".join(supported()),
        "threads": f"{torch.get_num_threads()} (torch.get_num_threads())",
        "reads": f"{A.nbytes / 1e6:.2f} MB of weights, of {2 * A.shape[0] * A.shape[1] / 1e6:.2f}",
    }
    return Plan(name, f"{A.name}_{isa}", choices)


def spmm(A: SparseMatrix, B: Tensor, C: Tensor) -> None:
    """C[M, N] = A[M, K] · B[K, N]; sums in fp32, the same bits for any number of threads."""
    isa, _ = choose_isa(A.dtype)
    arrays = [A.arrays[array] for array in ARRAYS[A.name]]
    pointers = (ctypes.c_void_p * 5)(*(array.data_ptr() for array in arrays))
    problem = _Problem(
        FORMAT_NUMBER[A.name], int(A.dtype == torch.bfloat16), *A.shape, B.shape[1],
        pointers, arrays[-1].numel(),
        B.data_ptr(), *B.stride(),
        C.data_ptr(), *C.stride(),
        torch.get_num_threads(),
    )  # fmt: skip
    if build.load("cpu").lscd_spmm(ISAS.index(isa), ctypes.byref(problem)):
        raise MemoryError(f"no memory to multiply by B [{B.shape[0]}, {B.shape[1]}]")


def _step(format: str, isa: str) -> str:
    """The inner step of a decoder."""
    if format == "dense":
        return "transposed"
    return SPREADS[isa] if format == "tca_bme" else "weight by weight"


def read_all(data: Tensor) -> None:
    """Read every byte of a contiguous host tensor (whole 64-byte lines) with all threads."""
    build.load("cpu").lscd_read_all(
        ctypes.c_void_p(data.data_ptr()),
        ctypes.c_int64(data.nbytes // 64 * 64),
        ctypes.c_int64(torch.get_num_threads()),
    )


def _check_isa(isa: str, argument: str) -> str:
    if isa not in supported():
        raise ValueError(f"{argument}={isa!r}: not on this CPU; allowed: {', '.join(supported())}")
    return isa
