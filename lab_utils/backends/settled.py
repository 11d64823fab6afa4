"""Which weights have been written for good, so that a kernel may read them early."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from lab_utils.streams import is_captured

# By tensor on a GPU: its version when the host had waited for all that was written to it.
_versions: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def settled(arrays: Iterable[Tensor]) -> bool:
    """Whether nothing on the GPU still writes to `arrays`; waits for it, where it may.

    A grid that begins before the one before it has ended reads weights before it waits for that,
    so whoever encoded, copied or changed them must have ended. Therefore the first product after
    that waits, on the host, for all that its stream comes after. Where it is captured, which
    forbids to wait, this says False, and the product begins as others do.
    """
    fresh = [array for array in arrays if _versions.get(array) != array._version]
    if not fresh:
        return True
    versions = [array._version for array in fresh]
    device = fresh[0].device
    if is_captured(device):
        return False
    torch.cuda.current_stream(device).synchronize()
    _versions.update(zip(fresh, versions, strict=True))
    return True
