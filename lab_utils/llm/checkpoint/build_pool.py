"""Memory of a GPU in which layers are made, apart from that in which they stay.

Pruning and encoding need memory for a while, in pieces of all sizes. Were the finished matrices to
lie among them, holes would remain that nothing else fits into:

    one pool     | dense | scores | mask | encoded | counts | …     freed but for "encoded"
    two pools    | encoded | encoded | …                            without a hole
                 | dense | scores | mask | encoded | counts | …     freed as a whole
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from lab_utils.llm.checkpoint.skeleton import linear_of, own_copy
from lab_utils.llm.model import MATRICES, Layer
from lab_utils.nn import SparseLinear


class BuildPool:
    """A pool of torch's allocator for `device`, given back with this object; on a CPU, nothing."""

    def __init__(self, device: torch.device):
        self._pool = torch.cuda.MemPool() if device.type == "cuda" else None

    def active(self) -> AbstractContextManager:
        """Inside, new tensors lie in the pool."""
        return nullcontext() if self._pool is None else torch.cuda.use_mem_pool(self._pool)

    def move_out(self, layer: Layer) -> None:
        """Copy the matrices of `layer` out of the pool, one at a time."""
        if self._pool is not None:
            for name in MATRICES:
                setattr(layer, name, copied(layer.get_submodule(name)))


def copied(matrix: nn.Module) -> nn.Module:
    """The same dense or sparse matrix in memory of its own."""
    bias = None if matrix.bias is None else own_copy(matrix.bias.detach())
    if isinstance(matrix, SparseLinear):
        return SparseLinear(matrix.weight.clone(), bias).eval()
    return linear_of(own_copy(matrix.weight.detach()), bias)
