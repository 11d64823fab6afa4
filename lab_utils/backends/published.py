"""Launches of the published kernels, kernels/spmm/tiled_csl.cu and tca_bme.cu, on sm_80 and later.

The K loop is split over blocks where C alone has too few to fill the GPU: `shares` says how often.
"""

import ctypes
import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from lab_utils.backends.launch import Launch, Place, call, unmoved
from lab_utils.backends.problem import Problem, product
from lab_utils.backends.settled import settled
from lab_utils.backends.shares import MODELS, Tiles, best_workers
from lab_utils.formats import SparseMatrix

INSTRUCTION = "mma"
TILE_K = 64  # columns of A that a block decodes at a time
HOPPER = (9, 0)  # has wgmma, sparse or not, and early grids; what relies on them was measured there

# Arrays that each kernel takes, in the order of kernels/spmm/kernels.cuh.
ARRAYS = {
    "tiled_csl": ("words", "tile_offsets"),
    "tca_bme": ("bitmap", "values", "gt_offset", "strip_offset"),
}
FORMAT_NUMBER = {format: number for number, format in enumerate(ARRAYS)}


class Shape(ctypes.Structure):
    """Blocks of a launch (`Shape` of kernels/common/launch.cuh)."""

    __slots__ = ()
    _fields_ = tuple(
        (field, ctypes.c_int32)
        for field in ("block_m", "block_n", "threads", "shared_bytes", "blocks_per_sm")
    )


@dataclass(frozen=True)
class Layout:
    """Blocks of C, the workers that share A's tiles, and why there are so many."""

    shape: Shape
    workers: int
    why: str
    at_once: int  # blocks that an SM is to have at once; 0: as many as fit

    @property
    def block_n(self) -> int:
        return self.shape.block_n


def layout_of(A: SparseMatrix, N: int, multiprocessors: int, split_k: float | None) -> Layout:
    """`split_k` workers for each row of blocks of C, or as many as the model finds best."""
    shape = shape_of(A, N)
    if split_k:
        workers, why = legal_workers(A, shape, split_k), f"{split_k:g} for each row, as asked for"
    else:
        workers, why = _best_workers(A, N, shape, multiprocessors)
    on_an_sm = -(-workers * -(-N // shape.block_n) // multiprocessors)
    wider = is_hopper(A.device) and on_an_sm < shape.blocks_per_sm
    return Layout(shape, workers, why, on_an_sm if wider else 0)


def split_k_of(A: SparseMatrix, layout: Layout) -> float:
    """Workers for each row of blocks."""
    return layout.workers / rows_of(A, layout.shape)


def launch_of(A: SparseMatrix, N: int, layout: Layout, place: Place = unmoved) -> Launch:
    """A launch, but for B, C and scratch memory; it reads what `place` makes of its arrays."""
    arrays = {name: place(A.arrays[name]) for name in ARRAYS[A.name]}
    problem = problem_of(A, N, arrays)
    problem.workers = layout.workers
    if problem.sm90:
        problem.early = A.device.type == "cpu" or settled(arrays.values())
        problem.at_once = layout.at_once
    sums = sums_of(A, N, layout.shape, layout.workers)
    return Launch(("lscd_cuda_spmm", FORMAT_NUMBER[A.name]), problem, sums, arrays)


def choices(A: SparseMatrix, N: int, layout: Layout) -> dict[str, str]:
    """What `explain` says of a launch."""
    shape = layout.shape
    return {
        "blocks": f"{shape.block_m} x {shape.block_n} of C, {shape.threads} threads, "
        f"{shape.shared_bytes / 1024:.0f} KB shared memory, {shape.blocks_per_sm} per SM",
        "workers": f"{layout.workers} ({layout.why})",
        "reads": f"{A.nbytes / 1e6:.2f} MB of weights, of {2 * A.shape[0] * A.shape[1] / 1e6:.2f}",
    }


def problem_of(A: SparseMatrix, N: int, arrays: dict[str, Tensor]) -> Problem:
    """What is launched; `arrays` are those of ARRAYS. B, C and the partial sums are missing."""
    fields = product(A, N, arrays.values())
    return Problem(**fields, workers=1, tile_values=_tile_values(A), sm90=is_hopper(A.device))


def legal_workers(A: SparseMatrix, shape: Shape, split_k: float) -> int:
    """About `split_k` workers for each row of blocks, and a tile or more for each worker."""
    rows = rows_of(A, shape)
    return min(max(round(split_k * rows), 1), rows * -(-A.shape[1] // TILE_K))


def sums_of(A: SparseMatrix, N: int, shape: Shape, workers: int) -> tuple[int, ...]:
    """Shape of a launch's partial sums."""
    shared = rows_of(A, shape) % workers != 0
    return workers * shared, 2, N, shape.block_m


def rows_of(A: SparseMatrix, shape: Shape) -> int:
    """Rows of blocks of C."""
    return -(-A.shape[0] // shape.block_m)


def _tile_values(A: SparseMatrix) -> int:
    """Values of a tile: the most of TCA-BME's, which decide its shared memory; Tiled-CSL's mean."""
    if A.constants:
        return A.constants[0]
    return -(-A.arrays["words"].numel() // (A.arrays["tile_offsets"].numel() - 2))


def _density(A: SparseMatrix) -> float:
    """Stored values of A by its size, to two places."""
    values = A.arrays["values" if A.name == "tca_bme" else "words"].numel()
    return round(min(1.0, values / (A.shape[0] * A.shape[1])), 2)


def shape_of(A: SparseMatrix, N: int) -> Shape:
    """The blocks that the kernel cuts C [M, N] into on A's device; the emulator's for the CPU."""
    sm90 = is_hopper(A.device)
    return _shape_of(A.device, A.name, A.dtype, min(N, 128), _tile_values(A), sm90)


@functools.cache
def _shape_of(
    device: torch.device, format: str, dtype: torch.dtype, N: int, tile_values: int, sm90: bool
) -> Shape:
    shape, fp16_or_bf16 = Shape(), int(dtype == torch.bfloat16)
    asked = Problem(
        dtype=fp16_or_bf16, M=1, K=1, N=N, workers=1, tile_values=tile_values, sm90=sm90
    )
    arguments = FORMAT_NUMBER[format], ctypes.byref(asked), ctypes.byref(shape)
    if device.type == "cpu":
        call("emulator", "lscd_cuda_shape", *arguments)
    else:
        with torch.cuda.device(device):
            call("cuda", "lscd_cuda_shape", *arguments)
    return shape


def _best_workers(A: SparseMatrix, N: int, shape: Shape, multiprocessors: int) -> tuple[int, str]:
    """Workers that share A's tiles in the shortest time, and why."""
    tiles = Tiles(
        rows=rows_of(A, shape),
        row_tiles=-(-A.shape[1] // TILE_K),
        N=N,
        block_n=shape.block_n,
        density=_density(A),
    )
    return best_workers(tiles, MODELS[A.name], multiprocessors, shape.blocks_per_sm)


@functools.cache
def is_hopper(device: torch.device) -> bool:
    """Whether a GPU is of sm_90, as the one is that the emulator stands for."""
    return device.type == "cpu" or torch.cuda.get_device_capability(device) == HOPPER
