"""What lies between the products of a layer: the residual sum, norms, biases and ReLU.

Each is a few numbers for each weight that a product reads. So a sum waits for the norm that follows
it, and a bias for either:

    x + y + bias ─┬─ norm ─ to the next product        one kernel
                  └─ the next x
    relu(y + bias) ─ to fc2                            one kernel, or part of the product's

They are so many kernels in a decode step on a GPU (`one_kernel`): a prompt has numbers enough for a
kernel each. Sums are rounded less often then.
"""

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from lab_utils.llm.one_kernel import in_step


class Product(NamedTuple):
    """y [batch, tokens, M], and the bias [M] that is still to be added, if there is one."""

    y: Tensor
    bias: Tensor | None = None

    def sum(self) -> Tensor:
        """y + bias."""
        return self.y if self.bias is None else self.y + self.bias

    def of_heads(self, dim: int) -> "Product":
        """q, k and v of each head, [3, batch, heads, tokens, dim], where M is three times all."""
        bias = None if self.bias is None else self.bias.view(3, 1, -1, 1, dim)
        return Product(self.y.unflatten(-1, (3, -1, dim)).permute(2, 0, 3, 1, 4), bias)

    def relu(self) -> Tensor:
        """max(y + bias, 0); y may be overwritten."""
        if self.bias is None:
            return self.y.relu_()
        return in_step(_add_relu, self.y, self.bias)


class Residual:
    """x [batch, tokens, hidden], the sum that runs through all layers, and what it waits for."""

    def __init__(self, x: Tensor, waiting: Product | None = None):
        self._x, self._waiting = x, waiting

    def __add__(self, product: Product) -> "Residual":
        return Residual(self.sum(), product)

    def sum(self) -> Tensor:
        """x, everything added."""
        if self._waiting is not None:
            self._x, self._waiting = self._x + self._waiting.sum(), None
        return self._x

    def norm(self, norm: nn.LayerNorm) -> Tensor:
        """norm(x), everything added."""
        if self._waiting is None:
            return norm(self._x)
        of_norm = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        self._x, normed = in_step(_add_norm, self._x, *self._waiting, *of_norm)
        self._waiting = None
        return normed


def _add_norm(
    x: Tensor, y: Tensor, bias: Tensor | None, shape: tuple[int, ...],
    norm_weight: Tensor | None, norm_bias: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x = x + Product(y, bias).sum()
    return x, F.layer_norm(x, shape, norm_weight, norm_bias, eps)


def _add_relu(y: Tensor, bias: Tensor) -> Tensor:
    return (y + bias).relu_()
