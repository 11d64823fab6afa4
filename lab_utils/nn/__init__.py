"""Sparse weights in torch models.

`layer` is what stands in place of a `torch.nn.Linear`, `swap` puts it there in a whole model, and
`linears` says which layers that takes, and what it must not lose.
"""

from lab_utils.nn.layer import SparseLinear
from lab_utils.nn.swap import sparsify

__all__ = ["SparseLinear", "sparsify"]
