"""What of an encoding was validated, and the name that compiled graphs have for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from lab_utils.formats.base import SparseMatrix

_numbers = itertools.count(1)
_encodings: WeakValueDictionary[str, SparseMatrix] = WeakValueDictionary()


class Validated:
    """An encoding as it was validated, and `memo`: what backends know of it as it was then.

    `key` is the name of that in this process, with its format and shape: of other encodings, and
    of this one once it has been validated anew, it is another one.
    """

    memo: object | None = None

    def __init__(self, A: SparseMatrix):
        self._shape, self._dtype = A.shape, A.dtype
        self._seen = [(name, one, one.data_ptr(), one._version) for name, one in A.arrays.items()]
        self.key = f"{A.name} {A.shape[0]}x{A.shape[1]}, {next(_numbers)}"
        _encodings[self.key] = A

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


def encoding_of(key: str) -> SparseMatrix:
    """The encoding that was validated with that key. Raises RuntimeError where it is gone."""
    if (A := _encodings.get(key)) is None:
        raise RuntimeError(f"key={key!r}: no such encoding in this process; compile the model anew")
    return A
