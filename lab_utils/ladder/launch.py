"""Encoding weights for a rung, and launching its kernel on a GPU or in the emulator."""

import ctypes
import functools
import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from lab_utils import build, formats
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.backends import published
from lab_utils.backends.launch import ALIGN, aligned_columns, call
from lab_utils.backends.problem import Problem
from lab_utils.backends.published import Shape
from lab_utils.backends.simt import Machine, apart
from lab_utils.ladder.rungs import KERNELS_IN_ORDER, Rung, by_name
from lab_utils.streams import current_stream, on

EMULATED_SPLIT = 2.5  # workers for each row of blocks: the emulator has no multiprocessors to fill


@dataclass(frozen=True)
class Encoded:
    """Weights [M, K] as the kernel of a rung reads them; `tile_values` of the largest tile."""

    rung: Rung
    shape: tuple[int, int]
    dtype: torch.dtype
    arrays: dict[str, Tensor]
    tile_values: int

    @property
    def nbytes(self) -> int:
        """Bytes that one product reads of the weights."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def device(self) -> torch.device:
        return next(iter(self.arrays.values())).device

    def clone(self) -> Self:
        """The same weights in memory of their own."""
        return replace(self, arrays={name: array.clone() for name, array in self.arrays.items()})

    def to(self, device: torch.device | str) -> Self:
        """The same weights on another device."""
        return replace(self, arrays={name: one.to(device) for name, one in self.arrays.items()})


def encode(rung: str, W: Tensor) -> Encoded:
    """Encode W [M, K], fp16 or bf16, on its device for the rung of that name.

    Raises ValueError for an unknown rung, and where `formats.encode` does.
    """
    which = by_name(rung)
    A = formats.encode(W, which.format, **which.options)
    if which.format == "dense":
        rows = A.arrays["values"].view(A.shape)
        arrays, most = {"weights": torch.nn.functional.pad(rows, (0, -W.shape[1] % ALIGN))}, 0
    else:
        arrays = {name: A.arrays[name] for name in published.ARRAYS[which.format]}
        most = A.constants[0] if A.constants else 4 * int(arrays["tile_offsets"].diff().max())
    return Encoded(which, A.shape, A.dtype, arrays, most)


def run(rung: str, W: Tensor, B: Tensor, backend: str = "cuda") -> Tensor:
    """C [M, N] = W [M, K] · B [K, N] by the kernel of a rung; `backend` is cuda or emulator.

    Raises ValueError for another backend and for operands that do not fit, RuntimeError where the
    backend does not work.
    """
    if backend not in ("cuda", "emulator"):
        raise ValueError(f"backend={backend!r}; allowed: cuda, emulator")
    A = encode(rung, W)
    if backend == "emulator":
        return emulate(A, B)[0]
    _check(A, B, "cuda")
    C = B.new_empty(B.shape[1], A.shape[0]).T
    spmm(A, B, C)
    return C


def spmm(A: Encoded, B: Tensor, C: Tensor, split_k: float | None = None) -> None:
    """C = A · B on torch's current stream, C [M, N] with contiguous columns.

    `split_k` overrides `planned_split_k`, for a rung that shares tiles out. Raises ValueError for
    one that is not above 0, and for operands that do not fit.
    """
    _check(A, B, "cuda")
    _check_result(A, B, C)
    (columns, pitch), shape = aligned_columns(B), _shape(A)
    splits = planned_split_k(A, B.shape[1]) if split_k is None else _splits(A, split_k)
    launch = _problem(A, columns, pitch, C.T, splits, shape)
    partial = C.new_empty(launch.sums, dtype=torch.float32)
    launch.problem.partial = partial.data_ptr()
    problem, stream = ctypes.byref(launch.problem), current_stream(C.device)
    with on(C.device):
        call("cuda_ladder", "lscd_cuda_spmm", _number(A), problem, stream)


def planned_split_k(A: Encoded, N: int) -> float:
    """Workers for each row of blocks on A's GPU: one, or as many as run at once."""
    if not A.rung.shares:
        return 1
    shape = _shape(A)
    at_once = torch.cuda.get_device_properties(A.device).multi_processor_count * shape.blocks_per_sm
    return at_once // -(-N // shape.block_n) / published.rows_of(A, shape)


def emulate(
    A: Encoded, B: Tensor, *, watch: int | None = None, split_k: float = EMULATED_SPLIT
) -> tuple[Tensor, KernelTrace]:
    """C [M, N] = A · B in the emulator, and what it counted; `watch` as in `emulator.recording`.

    `split_k`: workers for each row of blocks, of a rung that shares tiles out. Raises ValueError
    for one that is not above 0, and for operands that do not fit, KernelFault where the kernel does
    what it must not.
    """
    _check(A, B, "cpu")
    splits = _splits(A, split_k)
    K, N = B.shape
    shape = Shape()
    arrays = {name: apart(array) for name, array in A.arrays.items()}
    # NaN tells of padding that is read, and of results that are not written.
    columns = apart(torch.nn.functional.pad(B.T, (0, -K % ALIGN), value=torch.nan))[:, :K]
    result = apart(B.new_full((N, A.shape[0]), torch.nan))
    asked = Problem(dtype=_dtype(A), M=1, K=1, N=N, tile_values=A.tile_values, workers=1)
    of_launch = machine().library.lscd_cuda_shape
    if error := of_launch(_number(A), ctypes.byref(asked), ctypes.byref(shape)):
        raise RuntimeError(f"{A.rung.name} cannot be launched: error {error}")
    placed = replace(A, arrays=arrays)
    launch = _problem(placed, columns, columns.stride(0), result, splits, shape)
    partial = apart(torch.full(launch.sums, torch.nan))
    launch.problem.partial = partial.data_ptr()
    trace = machine().run(
        "lscd_cuda_spmm", _number(A), ctypes.byref(launch.problem), None,
        read=arrays | {"B": columns},
        written={"C": result, "partial": partial},
        watch=watch,
    )  # fmt: skip
    return result.T.clone(), trace


@functools.cache
def machine() -> Machine:
    """The machine that runs kernels/ladder. Raises RuntimeError where it cannot be built."""
    return Machine(build.load("emulator_ladder"))


@dataclass
class _Launch:
    problem: Problem
    sums: tuple[int, ...]  # the shape of its partial sums


def _problem(
    A: Encoded, columns: Tensor, pitch: int, result: Tensor, split_k: float, shape: Shape
) -> _Launch:
    """The product of A and N `columns`, `pitch` elements apart, into `result` [N, M]."""
    problem = Problem(
        dtype=_dtype(A), M=A.shape[0], K=A.shape[1], N=result.shape[0],
        A=(ctypes.c_void_p * 5)(*(array.data_ptr() for array in A.arrays.values())),
        B=columns.data_ptr(), ldb=pitch,
        C=result.data_ptr(), ldc=A.shape[0],
        workers=1, tile_values=A.tile_values,
    )  # fmt: skip
    problem.workers = published.legal_workers(A, shape, split_k)
    return _Launch(problem, published.sums_of(A, problem.N, shape, problem.workers))


def _shape(A: Encoded) -> Shape:
    return _shape_on(A.device, _number(A), _dtype(A), A.tile_values)


@functools.cache
def _shape_on(device: torch.device, number: int, dtype: int, tile_values: int) -> Shape:
    asked, shape = Problem(dtype=dtype, tile_values=tile_values), Shape()
    with torch.cuda.device(device):
        call("cuda_ladder", "lscd_cuda_shape", number, ctypes.byref(asked), ctypes.byref(shape))
    return shape


def _number(A: Encoded) -> int:
    return KERNELS_IN_ORDER.index(A.rung.kernel)


def _dtype(A: Encoded) -> int:
    return int(A.dtype == torch.bfloat16)


def _splits(A: Encoded, split_k: float) -> float:
    """Workers for each row of blocks, of so many that are asked for: one, unless tiles are shared.

    Raises ValueError for a number that is not above 0.
    """
    if not 0 < split_k < math.inf:
        raise ValueError(f"split_k={split_k}: allowed: a number above 0")
    return split_k if A.rung.shares else 1


def _check_result(A: Encoded, B: Tensor, C: Tensor) -> None:
    shape = (A.shape[0], B.shape[1])
    if (C.shape, C.dtype, C.device) != (shape, A.dtype, A.device) or not C.T.is_contiguous():
        found = f"{C.dtype} {tuple(C.shape)} on {C.device}, strides {C.stride()}"
        allowed = f"{A.dtype} {shape} on {A.device}, strides (1, {shape[0]})"
        raise ValueError(f"C is {found}; allowed: {allowed}")


def _check(A: Encoded, B: Tensor, device: str) -> None:
    K = A.shape[1]
    if not isinstance(B, Tensor):
        raise ValueError(f"B is a {type(B).__name__}; allowed: a tensor [{K}, N], {A.dtype}")
    if B.ndim != 2 or B.shape[0] != K or B.dtype != A.dtype:
        raise ValueError(f"B has shape {tuple(B.shape)}, {B.dtype}; allowed: [{K}, N], {A.dtype}")
    if A.device.type != device or B.device != A.device:
        raise ValueError(f"A is on {A.device}, B on {B.device}; allowed: both on {device}")
