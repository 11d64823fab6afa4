"""A decoded first, a piece of its rows at a time, and each piece multiplied dense by cuBLAS."""

import functools
import math
import threading

import torch
from torch import Tensor

from lab_utils.analysis.compression import VALUE_BYTES
from lab_utils.analysis.memory import PIECE_BYTES
from lab_utils.backends.launch import NO_EPILOGUE, Epilogue
from lab_utils.formats import SparseMatrix

# cuBLAS computes C in tiles of so many rows and columns, one on each multiprocessor at a time: from
# MANY_COLUMNS on as many of them as possible should be at work at the end, too.
TILE_ROWS, TILE_COLUMNS, MANY_COLUMNS = 256, 128, 1024
WAVES_OF_PIECE = 0.3  # what another piece costs


def rows_of_piece(A: SparseMatrix, N: int, multiprocessors: int) -> int:
    """Rows that are decoded together for N columns.

    PIECE_BYTES of scratch memory hold a piece, or a block of rows that is larger: 10^4 x 10^4
    weights keep every multiprocessor of a large GPU busy, and are little beside what A saves.
    Pieces are equal but for rounding, and the last one; with MANY_COLUMNS, such that their products
    leave few multiprocessors idle.
    """
    M, K = A.shape
    block = A.ROW_BLOCK
    most = max(block, PIECE_BYTES // (VALUE_BYTES * K) // block * block)
    pieces, step = -(-M // most), math.lcm(block, TILE_ROWS)
    if pieces > 1 and N >= MANY_COLUMNS and most >= step:
        return _busiest_rows(M, N, most, step, multiprocessors)
    return min(M, -(-M // (pieces * block)) * block)


@functools.cache  # every launch asks
def _busiest_rows(M: int, N: int, most: int, step: int, multiprocessors: int) -> int:
    """Of multiples of `step` up to `most`, the rows of pieces whose products cost fewest waves.

    Of several the most: 7168 x 28672 in pieces of 4096 and 3072 rows took 4 to 7 % less than in two
    equal ones, with 1024 columns and more.
    """

    def waves(rows: int) -> int:
        return -(-(-(-rows // TILE_ROWS) * -(-N // TILE_COLUMNS)) // multiprocessors)

    def cost(rows: int) -> float:
        return M // rows * waves(rows) + waves(M % rows) + WAVES_OF_PIECE * -(-M // rows)

    return min(range(most // step * step, 0, -step), key=cost)


def choices(A: SparseMatrix, N: int, multiprocessors: int) -> dict[str, str]:
    """What `explain` says of such a product."""
    rows = rows_of_piece(A, N, multiprocessors)
    return {
        "pieces": f"{-(-A.shape[0] // rows)} of at most {rows} rows, decoded into "
        f"{VALUE_BYTES * rows * A.shape[1] / 1e6:.1f} MB of scratch memory",
        "products": "torch.mm (cuBLAS), sums in fp32",
    }


def spmm(
    A: SparseMatrix,
    B: Tensor,
    C: Tensor,
    multiprocessors: int,
    epilogue: Epilogue = NO_EPILOGUE,
) -> None:
    """C[M, N] = A[M, K] · B[K, N]; any strides; captured and repeatable as torch.mm is.

    cuBLAS adds the bias of `epilogue` before it rounds; the maximum is taken of what it wrote.
    """
    (M, K), N = A.shape, B.shape[1]
    rows = rows_of_piece(A, N, multiprocessors)
    scratch = torch.empty(rows, K, dtype=A.dtype, device=A.device)
    columns = B if 1 in B.stride() else B.contiguous()  # or else torch would copy it for each piece
    # Of a single token torch's GPU products round before they add a bias, or fail: it goes twice.
    tokens = columns.T if N > 1 or epilogue.bias is None else columns.T.repeat(2, 1)
    for first in range(0, M, rows):
        piece = A.decode_rows(first, scratch[: M - first])
        part = slice(first, first + rows)
        with exact_sums:
            if epilogue.bias is None:
                torch.mm(piece, columns, out=C[part])
            elif C[part].T.is_contiguous() and N > 1:
                torch.addmm(epilogue.bias[part], tokens, piece.T, out=C[part].T)
            else:  # one token, or some rows of C: into them torch adds a bias and rounds twice
                C[part].T.copy_(torch.addmm(epilogue.bias[part], tokens, piece.T)[:N])
    if epilogue.relu:
        C.relu_()


class _ExactSums:
    """Sums of cuBLAS stay in fp32; by default torch allows 16-bit partial ones of a split K loop.

    torch's settings are those of the process: they are as before once no thread is inside.
    """

    NAMES = (
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
    )

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, {}

    def __enter__(self) -> None:
        settings = torch.backends.cuda.matmul
        with self._lock:
            if self._inside == 0:
                self._before = {name: getattr(settings, name) for name in self.NAMES}
                for name in self.NAMES:
                    setattr(settings, name, False)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for name, value in self._before.items():
                    setattr(torch.backends.cuda.matmul, name, value)


exact_sums = _ExactSums()
