"""A decoded first, a piece of its rows at a time, and each piece multiplied dense by cuBLAS."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from lab_utils.analysis.compression import VALUE_BYTES
from lab_utils.analysis.memory import PIECE_BYTES
from lab_utils.backends.launch import NO_EPILOGUE, Epilogue
from lab_utils.formats import SparseMatrix


def rows_of_piece(A: SparseMatrix) -> int:
    """Rows that are decoded together: pieces are equal but for rounding, and the last one.

    PIECE_BYTES of scratch memory hold a piece, or a block of rows that is larger: 10^4 x 10^4
    weights keep every multiprocessor of a large GPU busy, and are little beside what A saves.
    """
    M, K = A.shape
    most = max(A.ROW_BLOCK, PIECE_BYTES // (VALUE_BYTES * K) // A.ROW_BLOCK * A.ROW_BLOCK)
    pieces = -(-M // most)
    return min(M, -(-M // (pieces * A.ROW_BLOCK)) * A.ROW_BLOCK)


def choices(A: SparseMatrix) -> dict[str, str]:
    """What `explain` says of such a product."""
    rows = rows_of_piece(A)
    return {
        "pieces": f"{-(-A.shape[0] // rows)} of {rows} rows, decoded into "
        f"{VALUE_BYTES * rows * A.shape[1] / 1e6:.1f} MB of scratch memory",
        "products": "torch.mm (cuBLAS), sums in fp32",
    }


def spmm(A: SparseMatrix, B: Tensor, C: Tensor, epilogue: Epilogue = NO_EPILOGUE) -> None:
    """C[M, N] = A[M, K] · B[K, N]; any strides; captured and repeatable as torch.mm is.

    cuBLAS adds the bias of `epilogue` before it rounds; the maximum is taken of what it wrote.
    """
    rows, (M, K), N = rows_of_piece(A), A.shape, B.shape[1]
    scratch = torch.empty(rows, K, dtype=A.dtype, device=A.device)
    columns = B if 1 in B.stride() else B.contiguous()  # or else torch would copy it for each piece
    # Of a single token torch's GPU products round before they add a bias, or fail: it goes twice.
    tokens = columns.T if N > 1 or epilogue.bias is None else columns.T.repeat(2, 1)
    for first in range(0, M, rows):
        piece = A.decode_rows(first, scratch[: M - first])
        part = slice(first, first + rows)
        with exact_sums():
            if epilogue.bias is None:
                torch.mm(piece, columns, out=C[part])
            elif C[part].T.is_contiguous() and N > 1:
                torch.addmm(epilogue.bias[part], tokens, piece.T, out=C[part].T)
            else:  # one token, or some rows of C: into them torch adds a bias and rounds twice
                C[part].T.copy_(torch.addmm(epilogue.bias[part], tokens, piece.T)[:N])
    if epilogue.relu:
        C.relu_()


@contextmanager
def exact_sums() -> Iterator[None]:
    """Partial sums of a split K loop stay in fp32; by default torch allows 16-bit ones."""
    allowed = torch.backends.cuda.matmul
    names = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    before = [getattr(allowed, name) for name in names]
    try:
        for name in names:
            setattr(allowed, name, False)
        yield
    finally:
        for name, value in zip(names, before, strict=True):
            setattr(allowed, name, value)
