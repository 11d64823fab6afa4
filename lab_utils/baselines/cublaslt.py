"""cuBLASLt: the dense product by the fastest of the algorithms that its heuristic proposes.

The library is the one that torch has loaded, called through ctypes. Everything is column-major:
row-major W [M, K] is a K x M matrix that is transposed, activations x [N, K] are K x N, and the
result is M x N, in memory y [N, M].
"""

import ctypes
import ctypes.util
import functools
import sysconfig
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from lab_utils.baselines import native
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights
from lab_utils.baselines.fastest import fastest
from lab_utils.streams import current_stream

PROPOSALS = 8  # of the heuristic
WORKSPACE_BYTES = 64 << 20
# cublasLt.h
COMPUTE_32F = 68
DESC_TRANSA, OP_T = 3, 1
PREF_MAX_WORKSPACE_BYTES, PREF_REDUCTION_SCHEME_MASK, PREF_MIN_ALIGNMENT_A_BYTES = 1, 3, 5
REDUCTION_SCHEME_COMPUTE_TYPE = 2  # partial sums of a split K loop stay in fp32


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t, opaque."""

    __slots__ = ()
    _fields_ = (("data", ctypes.c_uint64 * 8),)


class Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    __slots__ = ()
    _fields_ = (
        ("algorithm", Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Cublaslt(Baseline):
    """Each of the heuristic's first eight proposals is timed at the first `bind` of a problem.

    They may use 64 MB of workspace and sum in fp32; those that return an error are passed over.
    The fastest (`fastest.fastest`) serves all later operands of that shape, dtype and alignment.
    """

    name = "cublaslt"
    dense = True

    def __init__(self) -> None:
        self._chosen: dict[tuple, Proposal] = {}

    def problem(self, W: Tensor, N: int) -> str | None:
        if reason := native.no_gpu():
            return reason
        try:
            _library()
        except (OSError, RuntimeError) as error:
            return str(error)
        return None

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        return Operand({"W": W}, W)

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        W = operand.tensors["W"]
        y = W.new_empty(B.shape[1], W.shape[0])
        alignments = tuple(_alignment(tensor) for tensor in (W, B, y))
        key = (W.device, W.dtype, *W.shape, B.shape[1], alignments)
        if key not in self._chosen:
            proposals = _proposals(W.device, W.dtype, *W.shape, B.shape[1], alignments)
            launches = [_launcher(W, B, y, proposal) for proposal in proposals]
            self._chosen[key] = proposals[fastest(launches)]
        return _launcher(W, B, y, self._chosen[key])


def _launcher(W: Tensor, B: Tensor, y: Tensor, proposal: Proposal) -> Callable[[], Tensor]:
    """A function that computes y = Bᵀ · Wᵀ by one algorithm, and returns yᵀ."""
    (M, K), N, device = W.shape, B.shape[1], W.device
    matmul, *layouts = _descriptors(W.dtype, M, K, N)
    of_w, of_x, of_y = layouts
    workspace = _workspace(device)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def run() -> Tensor:
        w, x, out = (native.pointer(tensor) for tensor in (W, B, y))
        with torch.cuda.device(device):
            _call("cublasLtMatmul", _handle(device), matmul,
                  ctypes.byref(one), w, of_w, x, of_x, ctypes.byref(zero), out, of_y, out, of_y,
                  ctypes.byref(proposal.algorithm), native.pointer(workspace),
                  ctypes.c_size_t(WORKSPACE_BYTES), current_stream(device))  # fmt: skip
        return y.T

    return run


def _proposals(
    device: torch.device, dtype: torch.dtype, M: int, K: int, N: int, alignments: tuple[int, ...]
) -> list[Proposal]:
    """What the heuristic proposes for W [M, K] and x [N, K], best first by its own estimate."""
    matmul, of_w, of_x, of_y = _descriptors(dtype, M, K, N)
    preference = ctypes.c_void_p()
    _call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
    wanted = {
        PREF_MAX_WORKSPACE_BYTES: ctypes.c_uint64(WORKSPACE_BYTES),
        PREF_REDUCTION_SCHEME_MASK: ctypes.c_uint32(REDUCTION_SCHEME_COMPUTE_TYPE),
    }
    for place, alignment in enumerate((*alignments, alignments[-1])):  # A, B, C, D
        wanted[PREF_MIN_ALIGNMENT_A_BYTES + place] = ctypes.c_uint32(alignment)
    for attribute, value in wanted.items():
        _set("cublasLtMatmulPreferenceSetAttribute", preference, attribute, value)
    found, count = (Proposal * PROPOSALS)(), ctypes.c_int()
    with torch.cuda.device(device):
        _call("cublasLtMatmulAlgoGetHeuristic", _handle(device), matmul, of_w, of_x, of_y, of_y,
              preference, PROPOSALS, found, ctypes.byref(count))  # fmt: skip
    _call("cublasLtMatmulPreferenceDestroy", preference)
    return list(found[: count.value])


@functools.cache
def _descriptors(dtype: torch.dtype, M: int, K: int, N: int) -> tuple[ctypes.c_void_p, ...]:
    """The operation and the layouts of W, x and y; a few hundred bytes that the process keeps."""
    matmul = ctypes.c_void_p()
    fp32 = native.CUDA_TYPE[torch.float32]
    _call("cublasLtMatmulDescCreate", ctypes.byref(matmul), COMPUTE_32F, fp32)
    _set("cublasLtMatmulDescSetAttribute", matmul, DESC_TRANSA, ctypes.c_int32(OP_T))
    layouts = []
    for rows, columns in ((K, M), (K, N), (M, N)):
        layouts.append(ctypes.c_void_p())
        _call("cublasLtMatrixLayoutCreate", ctypes.byref(layouts[-1]), native.CUDA_TYPE[dtype],
              ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))  # fmt: skip
    return matmul, *layouts


@functools.cache
def _handle(device: torch.device) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    with torch.cuda.device(device):
        _call("cublasLtCreate", ctypes.byref(handle))
    return handle


@functools.cache
def _workspace(device: torch.device) -> Tensor:
    """One for all launches: those of one stream follow each other."""
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def _alignment(tensor: Tensor) -> int:
    """The largest power of two, up to 256, that divides the tensor's address."""
    return min(256, tensor.data_ptr() & -tensor.data_ptr())


def _set(function: str, descriptor: ctypes.c_void_p, attribute: int, value: object) -> None:
    _call(function, descriptor, attribute, ctypes.byref(value),
          ctypes.c_size_t(ctypes.sizeof(value)))  # fmt: skip


def _call(function: str, *arguments: object) -> None:
    if status := getattr(_library(), function)(*arguments):
        raise RuntimeError(f"{function} failed with cublasStatus_t {status}")


@functools.cache
def _library() -> ctypes.CDLL:
    """libcublasLt: the one that torch has loaded, else one of the wheels, else the system's."""
    maps = Path("/proc/self/maps").read_text().split()
    loaded = [word for word in maps if Path(word).name.startswith("libcublasLt.so")]
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    wheels = [str(path) for path in sorted(packages.glob("*/lib/libcublasLt.so*"))]
    system = ctypes.util.find_library("cublasLt")
    path = next(iter((*loaded, *wheels, *filter(None, [system]))), None)
    if path is None:
        raise RuntimeError("libcublasLt not found: it comes with torch for CUDA (nvidia-cublas)")
    return ctypes.CDLL(path)
