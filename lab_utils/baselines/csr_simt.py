"""CSR without tensor cores, after Sputnik (Gale et al., SC 2020): kernels/baselines/csr_simt.cu."""

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from lab_utils.baselines import native
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights

PER_LANE = 4  # non-zeros of one load
PITCH = 8  # columns of B: 16-byte loads


class Product(ctypes.Structure):
    """`CsrProduct` of kernels/baselines/csr_simt.cu."""

    __slots__ = ("used",)  # by the kernel: kept alive as long as their addresses are here
    _fields_ = (
        ("dtype", ctypes.c_int32),
        ("M", ctypes.c_int32),
        ("K", ctypes.c_int32),
        ("N", ctypes.c_int32),
        ("row_ptr", ctypes.c_void_p),
        ("col_idx", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("B", ctypes.c_void_p),
        ("ldb", ctypes.c_int64),
        ("add", ctypes.c_void_p),
        ("C", ctypes.c_void_p),
        ("stride_m", ctypes.c_int64),
        ("stride_n", ctypes.c_int64),
    )


class CsrSimt(Baseline):
    """1-D tiling, row swizzle, vector loads at reverse offsets, 32-bit columns; any M, K, N.

    Sputnik takes activations in rows, [K, N]: `bind` makes that copy, which is not timed.
    """

    name = "csr_simt"

    def problem(self, W: Tensor, N: int) -> str | None:
        return native.problem()

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        return Operand(arrays(W), W)

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        launch = bind(operand.tensors, B)
        C = B.new_empty(operand.shape[0], B.shape[1])
        return lambda: launch(C)


def bind(tensors: dict[str, Tensor], B: Tensor) -> Callable[..., Tensor]:
    """`launch(C, add=False)` for A's `arrays`: writes A · B to C [M, N], of any strides.

    With `add` it adds A · B to what C holds: the sum, in fp32, is rounded once.
    """
    rows = activation_rows(B)
    product = Product(
        dtype=int(B.dtype == torch.bfloat16),
        M=tensors["order"].numel(),
        K=B.shape[0],
        N=B.shape[1],
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        B=rows.data_ptr(),
        ldb=rows.shape[1],
    )
    product.used = tensors, rows

    def launch(C: Tensor, add: bool = False) -> Tensor:
        product.C, product.add = C.data_ptr(), C.data_ptr() if add else None
        product.stride_m, product.stride_n = C.stride()
        native.call("lscd_csr_simt", C.device, ctypes.byref(product))
        return C

    return launch


def arrays(W: Tensor) -> dict[str, Tensor]:
    """CSR of W [M, K] as the kernel takes it, made on W's device; only +0 is left out.

    row_ptr int32 [M + 1], col_idx int32 and values [NNZ, padded to whole loads], order int32 [M].
    """
    stored = W.view(torch.int16) != 0
    counts = stored.sum(1)
    row_ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    nnz = int(row_ptr[-1])
    if nnz > torch.iinfo(torch.int32).max - 2 * PER_LANE:
        raise ValueError(f"W has {nnz} non-zeros; allowed: what int32 offsets can count")
    padding = (0, -nnz % PER_LANE or PER_LANE * (nnz == 0))
    return {
        "row_ptr": row_ptr.int(),
        "col_idx": torch.nn.functional.pad(stored.nonzero()[:, 1].int(), padding),
        "values": torch.nn.functional.pad(W[stored], padding),
        "order": row_order(counts),
    }


def row_order(counts: Tensor) -> Tensor:
    """Row swizzle: int32 [M], the rows by falling number of non-zeros, equals as they were."""
    return counts.argsort(descending=True, stable=True).int()


def activation_rows(B: Tensor) -> Tensor:
    """B [K, N] in rows, below them a row of zeros; N padded to whole loads unless it is 1."""
    K, N = B.shape
    pitch = N if N == 1 else -(-N // PITCH) * PITCH
    if 2 * (K + 1) * pitch >= 1 << 32:
        raise ValueError(f"B has shape {K, N}; allowed: what 32-bit offsets can reach, in bytes")
    rows = B.new_zeros(K + 1, pitch)
    rows[:K, :N] = B
    return rows
