"""Pruned layers and activations that the tests of SparseLinear share."""

import torch
from torch import Tensor, nn

from lab_utils import SparseLinear
from lab_utils.patterns import random_sparse

M, K = 96, 160


def linear(sparsity: float = 0.6, dtype: torch.dtype = torch.float16, seed: int = 0) -> nn.Linear:
    """A pruned layer [M, K] with a bias."""
    layer = nn.Linear(K, M, dtype=dtype)
    pattern = "two_four" if sparsity == 0.5 else "random"
    weight = random_sparse(M, K, sparsity, pattern=pattern, dtype=dtype, seed=seed, mean=0.5)
    layer.weight = nn.Parameter(weight)
    return layer


def activations(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.randn(*shape, K, generator=torch.Generator().manual_seed(1)).to(dtype)


def state_of(layer: nn.Linear, format: str = "tca_bme", **changes: Tensor) -> dict[str, Tensor]:
    return {**SparseLinear.from_linear(layer, format).state_dict(), **changes}


X = activations(8)
