"""Backend `cuda`: the compiled kernels of kernels/spmm, on tensors of an NVIDIA GPU.

Each launch goes to torch's current stream. The K loop is split over blocks where C alone has too
few to fill the GPU; `plan` says how often, and why.
"""

import ctypes
import functools

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.backends import hopper, hopper_wgmma
from lab_utils.backends.launch import ALIGN, Launch, aligned_columns
from lab_utils.backends.plan import Plan
from lab_utils.backends.problem import Problem
from lab_utils.backends.row_blocks import row_blocks_of
from lab_utils.backends.settled import settled
from lab_utils.backends.shares import MODELS, WIDE, Tiles, best_workers
from lab_utils.formats import SparseMatrix

name = "cuda"
devices = ("cuda",)

OLDEST = (8, 0)  # compute capability: cp.async and mma.m16n8k16 with bf16
TILE_K = 64  # columns of A that a block decodes at a time
HOPPER = (9, 0)  # has wgmma, sparse or not, and early grids; what relies on them was measured there

# Arrays that each kernel takes, in the order of kernels/spmm/kernels.cuh.
ARRAYS = {
    "tiled_csl": ("words", "tile_offsets"),
    "tca_bme": ("bitmap", "values", "gt_offset", "strip_offset"),
}
FORMAT_NUMBER = {format: number for number, format in enumerate(ARRAYS)}
# Formats that rely on undocumented metadata: the instruction, and the self-test with its results.
SELECTING = {
    hopper.FORMAT: ("mma.sp", "lscd_cuda_select", hopper.PROBES),
    hopper_wgmma.FORMAT: ("wgmma.sp", "lscd_cuda_wgmma_select", hopper_wgmma.PROBES),
}
formats = (*ARRAYS, *SELECTING)
__all__ = ["ALIGN", "Launch", "aligned_columns", "plan", "spmm"]


class Shape(ctypes.Structure):
    """Blocks of a launch (`Shape` of kernels/spmm/launch.cu)."""

    _fields_ = tuple(
        (field, ctypes.c_int32)
        for field in ("block_m", "block_n", "threads", "shared_bytes", "blocks_per_sm")
    )


def problem() -> str | None:
    """Why this backend does not work here, or None if it does."""
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    if (capability := torch.cuda.get_device_capability()) < OLDEST:
        return f"{torch.cuda.get_device_name()} is sm_{capability[0]}{capability[1]}; needs sm_80"
    try:
        build.load("cuda")
    except (RuntimeError, OSError) as error:
        return str(error)
    return None


def format_problem(format: str, device: torch.device) -> str | None:
    """Why a GPU on which this backend works cannot multiply a format, or None if it can.

    What zero-row 2:4 needs of the tensor core beyond its documentation is tried, once a process.
    """
    if format not in SELECTING:
        return None
    instruction, _, probes = SELECTING[format]
    capability, gpu = torch.cuda.get_device_capability(device), torch.cuda.get_device_name(device)
    if capability != HOPPER:
        number = "".join(map(str, capability))
        return f"{format} needs sm_90 (H100, H200); {gpu} is sm_{number}: {hopper.ELSEWHERE}"
    if failed := _failed_selections(format, device):
        return (
            f"{format} needs {instruction} to select by any metadata; on {gpu}, {failed} of "
            f"{probes} self-tests found that it does not: {hopper.ELSEWHERE}"
        )
    return None


def plan(A: SparseMatrix, B: Tensor) -> Plan:
    """Which kernel serves A [M, K] · B [K, N], in which blocks, with which split of K."""
    if A.name == hopper.FORMAT:
        return _hopper_plan(A, B.shape[1])
    if A.name == hopper_wgmma.FORMAT:
        return _wgmma_plan(A, B.shape[1])
    shape = shape_of(A, B.shape[1])
    workers, why = _workers(A, B.shape[1], shape)
    choices = {
        "blocks": f"{shape.block_m} x {shape.block_n} of C, {shape.threads} threads, "
        f"{shape.shared_bytes / 1024:.0f} KB shared memory, {shape.blocks_per_sm} per SM",
        "workers": f"{workers} ({why})",
        "reads": f"{A.nbytes / 1e6:.2f} MB of weights, of {2 * A.shape[0] * A.shape[1] / 1e6:.2f}",
    }
    return Plan(name, f"{A.name}_mma", choices, workers / rows_of(A, shape))


def spmm(
    A: SparseMatrix,
    B: Tensor,
    C: Tensor,
    split_k: float | None = None,
    left_out: str | None = None,
) -> None:
    """C[M, N] = A[M, K] · B[K, N] on torch's current stream; sums in fp32, in a fixed order.

    `split_k` overrides the plan's number of workers for each row of blocks. `left_out` names a
    stage of kernels/common/stages.cuh to build the kernel without: C is wrong then, and the time
    says what the stage costs.
    """
    M, N = C.shape
    columns = aligned_columns(B)  # [N, K]
    in_place = C.stride(0) == 1 and (N == 1 or C.stride(1) >= M)
    result = C.T if in_place else C.new_empty(N, M)  # [N, M]
    launch = _launch(A, N, split_k)
    launch.arrays |= launch.scratch(lambda shape: C.new_empty(shape, dtype=torch.float32))
    problem = launch.problem
    problem.B, problem.ldb = columns.data_ptr(), columns.stride(0)
    problem.C, problem.ldc = result.data_ptr(), M if N == 1 else result.stride(0)
    stream = ctypes.c_void_p(torch.cuda.current_stream(C.device).cuda_stream)
    with torch.cuda.device(C.device):
        _call(*launch.call, ctypes.byref(problem), stream, left_out=left_out)
    if not in_place:
        C.copy_(result.T)


def _launch(A: SparseMatrix, N: int, split_k: float | None) -> Launch:
    if A.name == hopper.FORMAT:
        return _hopper_launch(A, N, split_k)
    if A.name == hopper_wgmma.FORMAT:
        return _wgmma_launch(A, N, split_k)
    problem = problem_of(A, N, is_hopper(A.device))
    shape = shape_of(A, N)
    sums = share_out(problem, A, shape, split_k)
    if problem.sm90:
        problem.early = settled(A.arrays[array] for array in ARRAYS[A.name])
        blocks = problem.workers * -(-N // shape.block_n)
        on_an_sm = -(-blocks // _multiprocessors(A.device))
        problem.at_once = on_an_sm if on_an_sm < shape.blocks_per_sm else 0
    return Launch(("lscd_cuda_spmm", FORMAT_NUMBER[A.name]), problem, sums)


def problem_of(A: SparseMatrix, N: int, sm90: bool) -> Problem:
    arrays = [A.arrays[array].data_ptr() for array in ARRAYS[A.name]]
    return Problem(
        dtype=int(A.dtype == torch.bfloat16),
        M=A.shape[0],
        K=A.shape[1],
        N=N,
        A=(ctypes.c_void_p * 5)(*arrays),
        workers=1,
        tile_values=_tile_values(A),
        sm90=sm90,
    )


def share_out(
    launch: Problem, A: SparseMatrix, shape: Shape, split_k: float | None
) -> tuple[int, ...]:
    """Set the launch's workers: `split_k` for each row, or the plan's; the size of their sums."""
    rows = rows_of(A, shape)
    workers = round(split_k * rows) if split_k else _workers(A, launch.N, shape)[0]
    launch.workers = min(max(workers, 1), rows * -(-A.shape[1] // TILE_K))
    shared = rows % launch.workers != 0
    return launch.workers * shared, 2, launch.N, shape.block_m


def rows_of(A: SparseMatrix, shape: Shape) -> int:
    """Rows of blocks of C."""
    return -(-A.shape[0] // shape.block_m)


def _tile_values(A: SparseMatrix) -> int:
    """Values of a tile: the most of TCA-BME's, which decide its shared memory; Tiled-CSL's mean."""
    if A.constants:
        return A.constants[0]
    return -(-A.arrays["words"].numel() // (A.arrays["tile_offsets"].numel() - 2))


def shape_of(A: SparseMatrix, N: int) -> Shape:
    """The blocks that the kernel cuts C [M, N] into on A's device."""
    return _shape_of(A.device, A.name, A.dtype, min(N, 128), _tile_values(A))


@functools.cache
def _shape_of(
    device: torch.device, format: str, dtype: torch.dtype, N: int, tile_values: int
) -> Shape:
    shape = Shape()
    fp16_or_bf16 = int(dtype == torch.bfloat16)
    asked = Problem(
        dtype=fp16_or_bf16, M=1, K=1, N=N, workers=1, tile_values=tile_values,
        sm90=is_hopper(device),
    )  # fmt: skip
    with torch.cuda.device(device):
        _call("lscd_cuda_shape", FORMAT_NUMBER[format], ctypes.byref(asked), ctypes.byref(shape))
    return shape


def _workers(A: SparseMatrix, N: int, shape: Shape) -> tuple[int, str]:
    """Workers that share A's tiles in the shortest time, and why."""
    problem = Tiles(
        rows=rows_of(A, shape),
        columns=-(-N // shape.block_n),
        row_tiles=-(-A.shape[1] // TILE_K),
        sums=N * shape.block_m,
        wide=shape.block_n >= WIDE,
    )
    return best_workers(problem, MODELS[A.name], _multiprocessors(A.device), shape.blocks_per_sm)


@functools.cache
def is_hopper(device: torch.device) -> bool:
    """Whether a GPU is of sm_90."""
    return torch.cuda.get_device_capability(device) == HOPPER


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


# --- zero-row 2:4 ---------------------------------------------------------------------------------


def _hopper_plan(A: SparseMatrix, N: int) -> Plan:
    layout, blocks = _hopper_layout(A, N, None)
    workers = hopper.slices_of(A) * blocks * layout.warps
    return Plan(name, f"{A.name}_mma", hopper.choices(A, N, layout, blocks),
                workers / hopper.row_blocks_of(A))  # fmt: skip


def _hopper_launch(A: SparseMatrix, N: int, split_k: float | None) -> Launch:
    layout, blocks = _hopper_layout(A, N, split_k)
    arrays = hopper.operands(A, layout, blocks)
    problem = hopper.problem_of(A, N, layout, blocks, arrays)
    return Launch(("lscd_cuda_hopper",), problem, hopper.sums_of(A, N, layout, blocks), arrays)


def _hopper_layout(A: SparseMatrix, N: int, split_k: float | None) -> tuple[hopper.Layout, int]:
    """Blocks for N columns, and how many share a slice, once it is known that the kernel works."""
    hopper.check_weights(A)
    _check_format(A)
    layout = hopper.layout_of(A, N)
    return layout, hopper.blocks_per_slice(A, layout, _multiprocessors(A.device), split_k)


def _wgmma_plan(A: SparseMatrix, N: int) -> Plan:
    layout = _wgmma_layout(A, N, None)
    parts = layout.blocks / row_blocks_of(A)
    return Plan(name, f"{A.name}_wgmma", hopper_wgmma.choices(A, N, layout), parts)


def _wgmma_launch(A: SparseMatrix, N: int, split_k: float | None) -> Launch:
    return hopper_wgmma.launch_of(A, N, _wgmma_layout(A, N, split_k))


def _wgmma_layout(A: SparseMatrix, N: int, split_k: float | None) -> hopper_wgmma.Layout:
    hopper_wgmma.check_weights(A)
    _check_format(A)
    return hopper_wgmma.layout_of(A, N, _multiprocessors(A.device), split_k)


def _check_format(A: SparseMatrix) -> None:
    if reason := format_problem(A.name, A.device):
        raise RuntimeError(reason)


@functools.cache
def _failed_selections(format: str, device: torch.device) -> int:
    """Self-tests that fail on this GPU: kernels/spmm/hopper_select.cu, hopper_wgmma_select.cu."""
    _, launcher, probes = SELECTING[format]
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"the first product with {format} tests the GPU, which a CUDA graph cannot "
            "capture: multiply once before"
        )
    with torch.cuda.device(device):
        wrong = torch.full((probes,), -1, dtype=torch.int32, device=device)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _call(launcher, ctypes.c_void_p(wrong.data_ptr()), stream)
        return int(wrong.ne(0).sum())


def library(left_out: str | None = None) -> ctypes.CDLL:
    """The compiled kernels; with `left_out`, built without that stage (see `spmm`)."""
    return build.load("cuda", (f"LSCD_LEFT_OUT={left_out}",) if left_out else ())


def _call(function: str, *arguments: object, left_out: str | None = None) -> None:
    compiled = library(left_out)
    if error := getattr(compiled, function)(*arguments):
        compiled.lscd_cuda_error.restype = ctypes.c_char_p
        raise RuntimeError(f"{function} failed: {compiled.lscd_cuda_error(error).decode()}")
