"""Backend `cuda`: the compiled kernels of kernels/spmm, on tensors of an NVIDIA GPU.

Each launch goes to torch's current stream; `plan` says which kernel it is, in which blocks, and
why. Products of many columns have other ways than the kernel of few: see ways.py; `with
forced(way):` takes one of WAYS for all.
"""

import ctypes
import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lab_utils import build
from lab_utils.backends import decoded
from lab_utils.backends.crossover import LEAST_TILED, Product, costs_of, fastest
from lab_utils.backends.gpus import gpu_of
from lab_utils.backends.kernels import (
    ELSEWHERE,
    KERNELS,
    OF_SM_90,
    SELECTIONS,
    block_rows_of,
    check_weights,
    kernel_of,
    name_of,
    ways_of,
)
from lab_utils.backends.launch import (
    NO_EPILOGUE,
    Epilogue,
    Launch,
    aligned_columns,
    call,
    copies,
)
from lab_utils.backends.plan import Plan
from lab_utils.backends.published import HOPPER, is_hopper
from lab_utils.backends.remembered import planned, prepared
from lab_utils.backends.ways import DECODED, FUSED, TILES, WAYS, asked_way, forced, forced_way
from lab_utils.formats import SparseMatrix
from lab_utils.streams import current_stream, is_captured, on

__all__ = ["WAYS", "forced"]

name = "cuda"
devices = ("cuda",)
formats = tuple(KERNELS)

OLDEST = (8, 0)  # compute capability: cp.async and mma.m16n8k16 with bf16


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

    What zero-row 2:4 and lanes need of the tensor core beyond its documentation is tried, once a
    process: only kernels that cannot do without ask for it.
    """
    if format not in OF_SM_90:
        return None
    capability, gpu = torch.cuda.get_device_capability(device), torch.cuda.get_device_name(device)
    if capability != HOPPER:
        number = "".join(map(str, capability))
        return f"{format} needs sm_90 (H100, H200); {gpu} is sm_{number}: {ELSEWHERE}"
    needed = SELECTIONS.get(format)
    if needed and not needed.documented and (failed := _failed_selections(format, device)):
        return (
            f"{format} needs {needed.instruction} as its self-test wants it; on {gpu}, {failed} of "
            f"{needed.probes} results of that were others: {ELSEWHERE}"
        )
    return None


def plan(A: SparseMatrix, B: Tensor) -> Plan:
    """Which kernel serves A [M, K] · B [K, N], in which blocks, with which split of K."""
    N = B.shape[1]
    way, layout, why = _way(A, N)
    if way == DECODED:
        pieces = decoded.choices(A, N, _multiprocessors(A.device))
        return Plan(name, name_of(A.name, way), pieces | {"decoded": f"first: {why}"})
    kernel = kernel_of(A.name, way)
    copied = copies(B, block_rows_of(A, way))
    choices = kernel.choices(A, N, layout) | copied | {"decoded": f"in the kernel: {why}"}
    return Plan(name, name_of(A.name, way), choices, kernel.split_k_of(A, layout))


def _way(A: SparseMatrix, N: int) -> tuple[str, Any, str]:
    """Which of WAYS a product with N columns takes; how its kernel is laid out; why."""
    _check(A)
    if way := forced_way(A.name, _ways(A)):
        return way, None if way == DECODED else _layout(A, N, None, way), "forced"
    return planned(A, N, lambda: _fastest(A, N))


def _fastest(A: SparseMatrix, N: int) -> tuple[str, Any, str]:
    """The same, unless one is forced."""
    ways = _ways(A)
    pieces = -(-A.shape[0] // decoded.rows_of_piece(A, N, _multiprocessors(A.device)))
    layouts = {DECODED: None, FUSED: (fused := _layout(A, N, None, FUSED))}
    product = Product(costs_of(A), A.nbytes, *A.shape, N, fused.block_n, pieces)
    if TILES in ways and N >= LEAST_TILED:
        layouts[TILES] = tiles = _layout(A, N, None, TILES)
        product = product.by_tiles(tiles.passes, tiles.cost, tiles.columns)
    way, why = fastest(product, gpu_of(A.device))
    return way, layouts[way], why


def spmm(
    A: SparseMatrix,
    B: Tensor,
    C: Tensor,
    split_k: float | None = None,
    left_out: str | None = None,
    epilogue: Epilogue = NO_EPILOGUE,
) -> None:
    """C[M, N] = A[M, K] · B[K, N] on torch's current stream; sums in fp32, in a fixed order.

    A is as `ensure_valid` left it. `split_k` overrides the plan's number of workers for each row of
    blocks. `left_out` names a stage of kernels/common/stages.cuh to build the kernel without: C is
    wrong then, and the time says what the stage costs. Both are of the kernel that decodes while it
    multiplies. Those of the formats WITH_EPILOGUE take an `epilogue`, others raise a RuntimeError;
    cuBLAS and products by tiles take it for any.
    """
    N = C.shape[1]
    if split_k is None and left_out is None:
        ready = ready_for(A, N)
    else:
        _check(A)
        way = TILES if forced_way(A.name, _ways(A)) == TILES else FUSED
        ready = _ready(A, N, way, _layout(A, N, split_k, way))
    if ready is None:
        decoded.spmm(A, B, C, _multiprocessors(A.device), epilogue)
    else:
        _multiply(ready, B, C, left_out, epilogue)


class Ready(NamedTuple):
    """A launch for A, but for B, C and scratch memory."""

    launch: Launch
    block_rows: int  # of B, which the kernel reads together
    scratch: dict[str, int]  # where each begins in the launch's memory
    scratch_bytes: int


def ready_for(A: SparseMatrix, N: int) -> Ready | None:
    """What is ready for products with N columns; None where A is decoded first."""
    return prepared(A, (N, asked_way()), lambda: _ready(A, N, *_way(A, N)[:2]))


def _ready(A: SparseMatrix, N: int, way: str, layout: Any) -> Ready | None:
    if way == DECODED:
        return None
    launch = kernel_of(A.name, way).launch_of(A, N, layout)
    mine = {id(array) for array in A.arrays.values()}  # these the caller holds
    launch.arrays = {name: one for name, one in launch.arrays.items() if id(one) not in mine}
    return Ready(launch, block_rows_of(A, way), *launch.scratch_in_one())


def scratch_of(ready: Ready, C: Tensor) -> Tensor:
    """Memory for its launch, in which nobody has written."""
    return C.new_empty(ready.scratch_bytes, dtype=torch.uint8)


def _multiply(
    ready: Ready,
    B: Tensor,
    C: Tensor,
    left_out: str | None = None,
    epilogue: Epilogue = NO_EPILOGUE,
) -> None:
    """C = A · B by the kernel of `ready`, which decodes A while it multiplies."""
    (M, N), (down, right) = C.shape, C.stride()
    columns, pitch = aligned_columns(B, ready.block_rows)
    in_place = down == 1 and (N == 1 or right >= M)
    result = C if in_place else C.new_empty(N, M).T  # columns behind each other
    one, memory = ready.launch.copy(), scratch_of(ready, C)
    one.set_epilogue(epilogue)
    problem, scratch = one.problem, memory.data_ptr()
    for name, offset in ready.scratch.items():
        setattr(problem, name, scratch + offset)
    problem.B, problem.ldb = columns.data_ptr(), pitch
    problem.C, problem.ldc = result.data_ptr(), right if in_place and N > 1 else M
    with on(device := C.device):
        arguments = *one.call, ctypes.byref(problem), current_stream(device)
        call("cuda", *arguments, defines=_without(left_out))
    if not in_place:
        C.copy_(result)


def _check(A: SparseMatrix) -> None:
    """Raise ValueError for weights, RuntimeError on a GPU, that no kernel of the format takes."""
    check_weights(A)
    if reason := format_problem(A.name, A.device):
        raise RuntimeError(reason)


def _ways(A: SparseMatrix) -> tuple[str, ...]:
    """Those of its format on its GPU."""
    return ways_of(A.name, is_hopper(A.device))


def _layout(A: SparseMatrix, N: int, split_k: float | None, way: str = FUSED) -> Any:
    """How a kernel is laid out for N columns."""
    without = {"documented": True} if _only_documented(A) else {}
    kernel = kernel_of(A.name, way)
    return kernel.layout_of(A, N, _multiprocessors(A.device), split_k, **without)


def _only_documented(A: SparseMatrix) -> bool:
    """Whether A's kernel must do without what only some tensor cores do."""
    needed = SELECTIONS.get(A.name)
    documented = needed is not None and needed.documented
    return documented and _failed_selections(A.name, A.device) > 0


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


@functools.cache
def _failed_selections(format: str, device: torch.device) -> int:
    """Self-tests that fail on this GPU: kernels/spmm/hopper_select.cu, hopper_wgmma_select.cu."""
    _, launcher, probes, _ = SELECTIONS[format]
    if is_captured(device):
        raise RuntimeError(
            f"the first product with {format} tests the GPU, which a CUDA graph cannot "
            "capture: multiply once before"
        )
    with torch.cuda.device(device):
        wrong = torch.full((probes,), -1, dtype=torch.int32, device=device)
        call("cuda", launcher, ctypes.c_void_p(wrong.data_ptr()), current_stream(device))
        return int(wrong.ne(0).sum())


def library(left_out: str | None = None) -> ctypes.CDLL:
    """The compiled kernels; with `left_out`, built without that stage (see `spmm`)."""
    return build.load("cuda", _without(left_out))


def _without(stage: str | None) -> tuple[str, ...]:
    return (f"LSCD_LEFT_OUT={stage}",) if stage else ()
