"""How many bytes of tensors live at once, whoever holds them."""

from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Inside, the storages that operations of torch make are counted; `peak` is the most at once.

    Windows into files are none of them, unless they are copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak, self._total, self._sizes = 0, 0, {}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        given = {storage._cdata for storage in _storages((arguments, options))}
        made = [storage for storage in _storages(result) if storage._cdata not in given]
        self._sizes |= {StorageWeakRef(storage): storage.nbytes() for storage in made}
        self._total += sum(storage.nbytes() for storage in made)
        if self._total > self.peak:  # only then does it matter what has died
            self._sizes = {ref: size for ref, size in self._sizes.items() if not ref.expired()}
            self._total = sum(self._sizes.values())
            self.peak = max(self.peak, self._total)
        return result


def _storages(values) -> list[UntypedStorage]:
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return [tensor.untyped_storage() for tensor in tensors if tensor.device.type != "meta"]
