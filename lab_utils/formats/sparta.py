"""SparTA: 2:4 where it fits, CSR for the rest (SpInfer, section 3; fp16 as in Flash-LLM, 6.1)."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.formats import csr, native, two_four
from lab_utils.formats.base import SparseMatrix
from lab_utils.formats.checks import check_dense
from lab_utils.formats.csr import Csr
from lab_utils.formats.two_four import TwoFour

PARTS = {"two_four_": TwoFour, "csr_": Csr}

PROBLEMS = {1: "has a csr entry that is not right of two 2:4 non-zeros of its group"}


class SparTA(SparseMatrix):
    """A = A1 + A2: the first two non-zeros of each aligned group of four, and the others.

    ::

        group along K     | a | b | c | 0 |
        A1, 2:4           | a | b | 0 | 0 |     two_four_values, two_four_indices: as in `TwoFour`
        A2, CSR           | 0 | 0 | c | 0 |     csr_row_ptr, csr_col_idx, csr_values: as in `Csr`

    A2 holds M·K/4 · (4 (1-s)^3 s + 2 (1-s)^4) non-zeros of a random mask: `expected_nbytes` is
    SpInfer's equation 4.
    """

    name = "sparta"
    WRITES_ZEROS = True
    ARRAYS: ClassVar = {
        prefix + name: dtype
        for prefix, part in PARTS.items()
        for name, dtype in part.ARRAYS.items()
    }

    @classmethod
    def encode(cls, dense: Tensor) -> Self:
        dense = check_dense(dense)
        rest = torch.empty_like(dense)
        native.call("lscd_sparta_rest", dense, *dense.shape, rest)
        packed = {"two_four_": two_four.pack(dense), "csr_": csr.pack(rest)}
        arrays = {p + name: array for p, part in packed.items() for name, array in part.items()}
        return cls.of_valid(tuple(dense.shape), dense.dtype, arrays)

    @property
    def two_four(self) -> TwoFour:
        """A1, the 2:4 part, sharing the arrays."""
        self.ensure_valid()
        return TwoFour.of_valid(self.shape, self.dtype, self._arrays_of("two_four_"))

    @property
    def csr(self) -> Csr:
        """A2, what does not fit the 2:4 part, sharing the arrays."""
        self.ensure_valid()
        return Csr.of_valid(self.shape, self.dtype, self._arrays_of("csr_"))

    def _arrays_of(self, prefix: str) -> dict[str, Tensor]:
        return {name: self.arrays[prefix + name] for name in PARTS[prefix].ARRAYS}

    def _unpack(self, dense: Tensor, first: int) -> None:
        self.two_four._unpack(dense, first)
        self.csr._unpack(dense, first)

    def _lengths(self) -> dict[str, int | None]:
        return {}  # those of the parts

    def _check(self) -> None:
        for prefix, part in PARTS.items():
            try:
                part(self.shape, self.dtype, self._arrays_of(prefix))
            except ValueError as error:
                self.require(False, f"its {prefix}* arrays: {error}")
        values, indices, row_ptr, col_idx, _ = (self.arrays[name] for name in self.ARRAYS)
        self._scan(
            "row", PROBLEMS, "lscd_sparta_check", values, indices, row_ptr, col_idx, *self.shape
        )
