"""2:4, the structured sparsity of NVIDIA's sparse tensor cores (Mishra et al. 2021)."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.formats import native
from lab_utils.formats.base import WEIGHT, SparseMatrix
from lab_utils.formats.checks import check_dense

GROUP = 4  # columns; at most two of them are non-zero
CHUNK = 8  # columns of one byte of indices; each row is padded to whole bytes

PROBLEMS = {
    1: "has indices that no encoder writes for its values",
    2: "has a non-zero right of the last column",
}


class TwoFour(SparseMatrix):
    """Two values and two 2-bit columns for every aligned group of four along K.

    ::

        one group          values    indices: one byte for two groups
        | 0 | a | 0 | b |   a  b     bits 0-1: 1   bits 2-3: 3   bits 4-7: the next group
        | 0 | a | 0 | 0 |   a  0           1             3
        | 0 | 0 | 0 | a |   0  a           2             3
        | 0 | 0 | 0 | 0 |   0  0           2             3

        values    fp16/bf16 [M * Kp / 2]   Kp = K, rounded up to a multiple of 8
        indices   uint8 [M * Kp / 8]       bytes in the order of the columns

    Indices always increase, as mma.sp wants them; where a group has fewer than two non-zeros, its
    last zeros take the free places. For K % 8 == 0 the bytes are exactly `expected_nbytes`.
    """

    name = "2:4"
    LEAST_SPARSITY = 0.5  # but of narrow matrices, whose last group may be full
    WRITES_ZEROS = True
    ARRAYS: ClassVar = {"values": WEIGHT, "indices": torch.uint8}

    @classmethod
    def encode(cls, dense: Tensor) -> Self:
        """Encode `dense` [M, K]; raises ValueError as `SparseMatrix.encode` does.

        Also raises ValueError, naming row and group, where a group has three or four non-zeros.
        """
        dense = check_dense(dense)
        _refuse_overfull(dense)
        return cls.of_valid(tuple(dense.shape), dense.dtype, pack(dense))

    def _unpack(self, dense: Tensor, first: int) -> None:
        values, indices = (
            self.arrays[name].view(self.shape[0], -1)[first:] for name in ("values", "indices")
        )
        native.call("lscd_two_four_unpack", values, indices, *dense.shape, dense)

    def _lengths(self) -> dict[str, int | None]:
        return lengths(*self.shape)

    def _check(self) -> None:
        M, K = self.shape
        a = self.arrays
        found = native.first("lscd_two_four_check", a["values"], a["indices"], M, K)
        if found is not None:
            row, group = divmod(found // 16, 2 * -(-K // CHUNK))
            self.require(False, f"row {row}, group {group} {PROBLEMS[found % 16]}")


def lengths(M: int, K: int) -> dict[str, int]:
    """Elements of the arrays of 2:4 for a matrix [M, K]."""
    chunks = M * -(-K // CHUNK)
    return {"values": chunks * CHUNK // 2, "indices": chunks}


def pack(dense: Tensor) -> dict[str, Tensor]:
    """The first two non-zeros of every group of `dense` [M, K], contiguous, on its device."""
    M, K = dense.shape
    values = dense.new_empty(lengths(M, K)["values"])
    indices = dense.new_empty(lengths(M, K)["indices"], dtype=torch.uint8)
    native.call("lscd_two_four_pack", dense, M, K, values, indices)
    return {"values": values, "indices": indices}


def _refuse_overfull(dense: Tensor) -> None:
    """Raise ValueError for the first group with more than two non-zeros."""
    M, K = dense.shape
    found = native.first("lscd_two_four_overfull", dense, M, K)
    if found is not None:
        row, group = divmod(found, -(-K // GROUP))
        last = min(GROUP * group + GROUP, K) - 1
        raise ValueError(
            f"dense has more than two non-zeros in row {row}, group {group} (columns "
            f"{GROUP * group} to {last}); 2:4 holds two per group, sparta holds any matrix"
        )
