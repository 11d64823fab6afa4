"""What of an encoding was validated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab_utils.formats.base import SparseMatrix


class Validated:
    """An encoding as it was validated, and `memo`: what backends know of it as it was then."""

    memo: object | None = None

    def __init__(self, A: SparseMatrix):
        self._shape, self._dtype = A.shape, A.dtype
        self._seen = [(name, one, one.data_ptr(), one._version) for name, one in A.arrays.items()]

    def holds(self, A: SparseMatrix) -> bool:
        """Whether shape, dtype and every array are as they were."""
        arrays = A.arrays
        if A.shape != self._shape or A.dtype != self._dtype or len(arrays) != len(self._seen):
            return False
        for name, one, address, version in self._seen:
            if arrays.get(name) is not one or one.data_ptr() != address:
                return False
            if one._version != version:
                return False
        return True
