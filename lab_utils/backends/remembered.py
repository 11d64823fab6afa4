"""What the first launch of an encoding works out from it, and later ones find again.

All of it is of an encoding as it was validated last (`Validated.memo`), and of every other one that
has the same arrays: an exported graph makes one at each product.
"""

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from lab_utils.formats import SparseMatrix
from lab_utils.streams import apart, is_captured

Found = TypeVar("Found")
MOST = 64  # plans and launches of an encoding: seldom do more numbers of columns alternate
_keeping, _UNKNOWN = threading.Lock(), object()


class Memo:
    """What is known of arrays as they are; it goes with them."""

    def __init__(self, A: SparseMatrix):
        self.shares: dict = {}
        self.plans: dict = {}
        self.launches: dict = {}
        self.repeats: dict = {}
        self.last: Callable | None = None  # of `repeats`
        self._what = _what(A)
        # An array that is gone may leave its address, and its count of writes, to another one.
        self._arrays = [(weakref.ref(array), _state(array)) for array in _arrays(A)]

    def is_of(self, A: SparseMatrix) -> bool:
        """Whether A has these arrays, as they were."""
        if self._what != _what(A) or not self.is_current():
            return False
        pairs = zip(self._arrays, _arrays(A), strict=True)
        return all(array() is mine for (array, _), mine in pairs)

    def is_current(self) -> bool:
        """Whether all arrays are there, as they were."""
        arrays = [(array(), state) for array, state in self._arrays]
        return all(array is not None and _state(array) == state for array, state in arrays)

    def is_there(self) -> bool:
        """Whether all arrays are, as they were or not."""
        return all(array() is not None for array, _ in self._arrays)

    def keep_shares(self) -> None:
        """Forget all else, of arrays that are others now: graphs of them may launch with shares."""
        self.last = None
        for known in (self.plans, self.launches, self.repeats):
            known.clear()


# By an encoding's first array, which others may have, too.
_memos: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def memo_of(A: SparseMatrix) -> Memo:
    """That of A, as `ensure_valid` left it."""
    validated = A.validated  # looked at once: other threads may validate A anew meanwhile
    if (memo := validated.memo) is None:
        validated.memo = memo = _shared(A)
    return memo


def _shared(A: SparseMatrix) -> Memo:
    """Of memos of A's arrays the last one is of what was written last."""
    first = _arrays(A)[0]
    with _keeping:
        memos = _memos.get(first, [])
        for memo in reversed(memos):
            if memo.is_of(A):
                return memo
        memos = [memo for memo in memos if memo.is_there()]
        if memos and not memos[-1].is_current():
            memos[-1].keep_shares()
        memos.append(Memo(A))
        _memos[first] = memos
    return memos[-1]


def _what(A: SparseMatrix) -> tuple:
    return A.name, A.shape, A.dtype, A.constants


def _arrays(A: SparseMatrix) -> list[Tensor]:
    return [A.arrays[name] for name in A.ARRAYS]


def _state(array: Tensor) -> tuple[int, int]:
    return array.data_ptr(), array._version


def remembered(A: SparseMatrix, key: Hashable, find: Callable[[], Found]) -> Found:
    """`find()`, once for each `key`: what depends on what the arrays of A hold, which it looks at.

    Raises RuntimeError where a CUDA graph is captured, which forbids to look at arrays and to wait.
    """
    known, device = memo_of(A).shares, A.device
    if key in known:
        return known[key]
    if is_captured(device):
        raise RuntimeError(
            f"the first product with a {A.name} encoding shares its parts out, which a CUDA graph "
            "cannot capture: multiply once, by as many columns, before"
        )
    found = apart(device, find)
    if device.type == "cuda":  # launches on any stream read it, before the grid before them ended
        torch.cuda.current_stream(device).synchronize()
    known[key] = found  # not before: other threads take what they find
    return found


def planned(A: SparseMatrix, key: Hashable, find: Callable[[], Found]) -> Found:
    """`find()`, once for each `key`: also while a CUDA graph is captured.

    Raises what `find` does, and remembers nothing then. The last MOST are known.
    """
    known = memo_of(A).plans
    if (found := known.get(key, _UNKNOWN)) is _UNKNOWN:
        keep(known, key, found := find())
    return found


def prepared(A: SparseMatrix, key: Hashable, make: Callable[[], Found]) -> Found:
    """`make()`, once for each `key`: what has no more than addresses of A's arrays.

    What is made while a CUDA graph is captured is not kept, since a launch may then be another one
    (`settled`). The last MOST are known.
    """
    known = memo_of(A).launches
    if (made := known.get(key, _UNKNOWN)) is _UNKNOWN:
        made = make()
        if not is_captured(A.device):
            keep(known, key, made)
    return made


def keep(known: dict, key: Hashable, found: object) -> None:
    """Add what was found; what has been known for longest goes."""
    with _keeping:
        known[key] = found
        while len(known) > MOST:
            del known[next(iter(known))]
