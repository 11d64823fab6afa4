"""cuSPARSE's SpMM on CSR, through CuPy: 16-bit values, fp32 sums, 32-bit indices.

CuPy's own sparse matrices hold no 16-bit floats, so its bindings of cuSPARSE are called directly.
"""

import ctypes
import functools
import weakref
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from lab_utils.baselines import csr_simt, native
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights

# cusparse.h
INDEX_32I, INDEX_BASE_ZERO, NON_TRANSPOSE = 2, 0, 0
ORDER_COL, ORDER_ROW = 1, 2
SPMM_CSR_ALG2, SPMM_CSR_ALG3 = 6, 12
MOST_COLUMNS = 8  # up to which results in columns are the faster ones


class Cusparse(Baseline):
    """The fastest of cuSPARSE's CSR algorithms and orders whose sums are not rounded twice.

    Measured on an H200, 36864x9216: CUSPARSE_SPMM_CSR_ALG2 at N = 1, else ALG3, 3 to 6 times
    faster than ALG2 and exact; ALG1 and ALG2 round parts of 16-bit sums at N > 1. B is in rows:
    `bind` makes that copy, which is not timed. CuPy refuses cuSPARSE while a stream is captured,
    so that these launches are timed one by one.
    """

    name = "cusparse"
    capturable = False

    def problem(self, W: Tensor, N: int) -> str | None:
        if reason := native.no_gpu():
            return reason
        try:
            _bindings()
        except ImportError as error:
            return f"needs CuPy (pip install cupy-cuda13x): {error}"
        return None

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        arrays = csr_simt.arrays(W)
        nnz = int(arrays["row_ptr"][-1])
        return Operand(
            {name: arrays[name] for name in ("row_ptr", "col_idx", "values")}, W, nnz=nnz
        )

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        rows = B.contiguous()
        M, N = operand.shape[0], B.shape[1]
        C = B.new_empty(N, M).T if 1 < N <= MOST_COLUMNS else B.new_empty(M, N)
        return _Product(operand, rows, C, SPMM_CSR_ALG2 if N == 1 else SPMM_CSR_ALG3).run


class _Product:
    """The descriptors of one product, its workspace and its launch."""

    def __init__(self, operand: Operand, B: Tensor, C: Tensor, algorithm: int):
        cupy, cusparse = _bindings()
        self.tensors, self.C = (operand.tensors, B, C), C
        self.stream_of, self.spmm = cupy.cuda.ExternalStream, cusparse.spMM
        sparse = self._sparse(cusparse, operand)
        dense = [self._dense(cusparse, tensor) for tensor in (B, C)]
        self.scalars = ctypes.c_float(1), ctypes.c_float(0)
        one, zero = map(ctypes.addressof, self.scalars)
        product = (NON_TRANSPOSE, NON_TRANSPOSE, one, sparse, dense[0], zero, dense[1])
        self.arguments = (_handle(C.device), *product, native.CUDA_TYPE[torch.float32], algorithm)
        with torch.cuda.device(C.device), self._stream():
            size = cusparse.spMM_bufferSize(*self.arguments)
        self.buffer = torch.empty(max(size, 1), dtype=torch.uint8, device=C.device)

    def run(self) -> Tensor:
        with torch.cuda.device(self.C.device), self._stream():
            self.spmm(*self.arguments, self.buffer.data_ptr())
        return self.C

    def _stream(self):
        return self.stream_of(torch.cuda.current_stream(self.C.device).cuda_stream)

    def _sparse(self, cusparse: ModuleType, operand: Operand) -> int:
        places = [tensor.data_ptr() for tensor in operand.tensors.values()]
        types = INDEX_32I, INDEX_32I, INDEX_BASE_ZERO, native.CUDA_TYPE[operand.dtype]
        made = cusparse.createCsr(*operand.shape, operand.constants["nnz"], *places, *types)
        weakref.finalize(self, cusparse.destroySpMat, made)
        return made

    def _dense(self, cusparse: ModuleType, tensor: Tensor) -> int:
        in_rows = tensor.is_contiguous()
        pitch = tensor.shape[1] if in_rows else tensor.shape[0]
        kind = native.CUDA_TYPE[tensor.dtype], ORDER_ROW if in_rows else ORDER_COL
        made = cusparse.createDnMat(*tensor.shape, pitch, tensor.data_ptr(), *kind)
        weakref.finalize(self, cusparse.destroyDnMat, made)
        return made


def _bindings() -> tuple[ModuleType, ModuleType]:
    """CuPy and its bindings of cuSPARSE."""
    import cupy
    from cupy_backends.cuda.libs import cusparse

    return cupy, cusparse


@functools.cache
def _handle(device: torch.device) -> int:
    with torch.cuda.device(device):
        return _bindings()[1].create()
