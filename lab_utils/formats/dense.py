"""Dense as the trivial format: what every other one is measured against."""

from typing import ClassVar, Self

from torch import Tensor

from lab_utils.formats.base import WEIGHT, SparseMatrix
from lab_utils.formats.checks import check_dense


class Dense(SparseMatrix):
    """Every weight, zero or not.

    ::

        values   fp16/bf16 [M * K]   row-major
    """

    name = "dense"
    ARRAYS: ClassVar = {"values": WEIGHT}

    @classmethod
    def encode(cls, dense: Tensor) -> Self:
        dense = check_dense(dense)
        return cls.of_valid(tuple(dense.shape), dense.dtype, {"values": dense.flatten().clone()})

    def _unpack(self, dense: Tensor, first: int) -> None:
        dense.copy_(self.arrays["values"].view(self.shape)[first : first + len(dense)])

    def _lengths(self) -> dict[str, int | None]:
        return {"values": self.shape[0] * self.shape[1]}

    def _check(self) -> None:
        """Any values are a legal encoding."""
