"""What the first launch of an encoding works out from it, and later ones find again."""

import operator
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TypeVar

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from lab_utils.formats import SparseMatrix
from lab_utils.streams import is_captured

Found = TypeVar("Found")
# By the array that says where an encoding's parts begin: no other encoding has it.
_found: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
STARTS = ("chunk_start", "gt_offset")
MOST = 64  # plans and launches of an encoding: seldom do more numbers of columns alternate
_keeping, _UNKNOWN = threading.Lock(), object()
# By an encoding's first array: plans; launches, and the arrays that they are of.
_plans: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_launches: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def remembered(A: SparseMatrix, key: Hashable, find: Callable[[], Found]) -> Found:
    """`find()`, once for each `key` and state of the arrays of A, which has one of STARTS.

    Raises RuntimeError where a CUDA graph is captured, which forbids to look at arrays and to wait.
    """
    starts = next(A.arrays[name] for name in STARTS if name in A.arrays)
    state = key, *(A.arrays[name]._version for name in A.ARRAYS)
    known = _found.setdefault(starts, {})
    if state in known:
        return known[state]
    if starts.is_cuda and is_captured(starts.device):
        raise RuntimeError(
            f"the first product with a {A.name} encoding shares its parts out, which a CUDA graph "
            "cannot capture: multiply once, by as many columns, before"
        )
    found = find()
    if starts.is_cuda:  # launches on any stream read it, before the grid before them has ended
        torch.cuda.current_stream(starts.device).synchronize()
    known[state] = found  # not before: other threads take what they find
    return found


def planned(A: SparseMatrix, key: Hashable, find: Callable[[], Found]) -> Found:
    """`find()`, once for each `key`, and shape, dtype, device, constants and array sizes of A.

    For what depends on nothing else, such as what arrays hold: so it may be found while a CUDA
    graph is captured. Raises what `find` does, and remembers nothing then. The last MOST are known.
    """
    arrays = [A.arrays[name] for name in A.ARRAYS]
    sizes = (array.numel() for array in arrays)
    described = (key, A.name, A.shape, A.dtype, arrays[0].device, A.constants, *sizes)
    known = _plans.setdefault(arrays[0], {})
    if (found := known.get(described, _UNKNOWN)) is _UNKNOWN:
        _keep(known, described, found := find())
    return found


def prepared(A: SparseMatrix, key: Hashable, make: Callable[[], Found]) -> Found:
    """`make()`, once for each `key` and constants of A, and for its arrays as they are.

    For what has no more than addresses of them: it goes with the first one. What is made while a
    CUDA graph is captured is not kept, since a launch may then be another one (`settled`). The last
    MOST are known.
    """
    arrays = [A.arrays[name] for name in A.ARRAYS]
    seen = [(array.data_ptr(), array._version) for array in arrays]
    described = (key, A.name, A.shape, A.dtype, A.constants, *seen)
    known = _launches.setdefault(arrays[0], {})
    if (found := known.get(described)) is not None:
        made, same = found
        if all(map(operator.is_, [one() for one in same], arrays)):
            return made
    made = make()
    if not (arrays[0].is_cuda and is_captured(arrays[0].device)):
        # An array that is gone may leave its address, and its count of writes, to another one.
        _keep(known, described, (made, [weakref.ref(array) for array in arrays]))
    return made


def _keep(known: dict, described: Hashable, found: object) -> None:
    """Add what was found; what has been known for longest goes."""
    with _keeping:
        known[described] = found
        while len(known) > MOST:
            del known[next(iter(known))]
