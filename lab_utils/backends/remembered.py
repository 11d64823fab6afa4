"""What the first launch of an encoding works out from it, and later ones find again."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from lab_utils.formats import SparseMatrix

Found = TypeVar("Found")
# By the array that says where an encoding's parts begin: no other encoding has it.
_found: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
STARTS = ("chunk_start", "gt_offset")
# By an encoding's first array: plans; the state of all arrays, and launches of it.
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
    if starts.is_cuda and torch.cuda.is_current_stream_capturing():
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
    graph is captured. Raises what `find` does, and remembers nothing then.
    """
    arrays = [A.arrays[name] for name in A.ARRAYS]
    sizes = (array.numel() for array in arrays)
    described = (key, A.name, A.shape, A.dtype, arrays[0].device, A.constants, *sizes)
    known = _plans.setdefault(arrays[0], {})
    if described not in known:
        known[described] = find()
    return known[described]


def prepared(A: SparseMatrix, key: Hashable, make: Callable[[], Found]) -> Found:
    """`make()`, once for each `key`, and addresses and state of the arrays of A.

    For what has no more than addresses of them: it goes with A. Where a CUDA graph is captured it
    is made anew, since a launch may then be another one (`settled`).
    """
    arrays = [A.arrays[name] for name in A.ARRAYS]
    now = (A.name, A.shape, A.dtype, *[(one.data_ptr(), one._version) for one in arrays])
    state, known = _launches.get(arrays[0], (None, {}))
    if state == now and key in known:
        return known[key]
    made = make()
    if arrays[0].is_cuda and torch.cuda.is_current_stream_capturing():
        return made
    if state != now:
        known = {}
        _launches[arrays[0]] = now, known
    known[key] = made
    return made
