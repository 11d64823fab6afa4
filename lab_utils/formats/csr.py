"""CSR, compressed sparse rows: the format of cuSPARSE and Sputnik (SpInfer, section 3)."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.formats import native
from lab_utils.formats.base import WEIGHT, SparseMatrix
from lab_utils.formats.checks import check_dense, check_int32, offsets_from_counts

PROBLEMS = {
    1: "has a row_ptr that falls, or points out of col_idx",
    2: "has a col_idx out of 0 .. K-1",
    3: "has col_idx that do not increase",
    4: "stores a +0",
}


class Csr(SparseMatrix):
    """The non-zeros of each row, left to right, each with its column.

    ::

        row_ptr   int32 [M + 1]     first element of each row; the last entry is NNZ
        col_idx   int32 [NNZ]       column, increasing within a row
        values    fp16/bf16 [NNZ]

    Bytes: 4 (M + 1) + 6 NNZ, exactly `expected_nbytes` (SpInfer, equation 3).
    """

    name = "csr"
    ARRAYS: ClassVar = {"row_ptr": torch.int32, "col_idx": torch.int32, "values": WEIGHT}

    @classmethod
    def encode(cls, dense: Tensor) -> Self:
        dense = check_dense(dense)
        return cls.of_valid(tuple(dense.shape), dense.dtype, pack(dense))

    def _unpack(self, dense: Tensor, first: int) -> None:
        a = self.arrays
        row_ptr = a["row_ptr"][first:]
        native.call("lscd_csr_unpack", row_ptr, a["col_idx"], a["values"], *dense.shape, dense)

    def _lengths(self) -> dict[str, int | None]:
        return {"row_ptr": self.shape[0] + 1, "col_idx": None, "values": None}

    def _check(self) -> None:
        row_ptr, col_idx, values = (self.arrays[name] for name in self.ARRAYS)
        nnz = col_idx.numel()
        self.require(values.numel() == nnz, f"{values.numel()} values, {nnz} col_idx")
        self.require(int(row_ptr[0]) == 0, f"row_ptr starts at {int(row_ptr[0])}, not at 0")
        self.require(int(row_ptr[-1]) == nnz, f"row_ptr ends at {int(row_ptr[-1])}, not at {nnz}")
        self._scan("row", PROBLEMS, "lscd_csr_check", row_ptr, col_idx, values, *self.shape, nnz)


def pack(dense: Tensor) -> dict[str, Tensor]:
    """The arrays of CSR for `dense` [M, K], contiguous, on its device."""
    M, K = dense.shape
    check_int32(K - 1, "last column of A")
    counts = dense.new_empty(M, dtype=torch.int32)
    native.call("lscd_csr_count", dense, M, K, counts)
    row_ptr = offsets_from_counts(counts, "non-zeros of A")
    nnz = int(row_ptr[-1])
    col_idx, values = dense.new_empty(nnz, dtype=torch.int32), dense.new_empty(nnz)
    native.call("lscd_csr_pack", dense, M, K, row_ptr, col_idx, values)
    return {"row_ptr": row_ptr, "col_idx": col_idx, "values": values}
