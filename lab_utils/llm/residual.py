"""What lies between the products of a layer: the residual sum, norms, biases and ReLU.

Each is a few numbers for each weight that a product reads, but a kernel takes two microseconds
however little it does. So a sum waits for the norm that follows it, and a bias for either:

    x + y + bias ─┬─ norm ─ to the next product        one kernel
                  └─ the next x
    relu(y + bias) ─ to fc2                            one kernel

torch.compile makes them one, on GPUs, for decode steps: a prompt has numbers enough for a kernel
each. Sums are rounded less often then.
"""

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SWITCH = "LSCD_FUSED"  # environment: 0 leaves a kernel to each operation


class Product(NamedTuple):
    """y [batch, tokens, M], and the bias [M] that is still to be added, if there is one."""

    y: Tensor
    bias: Tensor | None = None

    def sum(self) -> Tensor:
        """y + bias."""
        return self.y if self.bias is None else self.y + self.bias

    def relu(self) -> Tensor:
        """max(y + bias, 0); y may be overwritten."""
        if self.bias is None:
            return self.y.relu_()
        return _as_one(_add_relu, self.y, self.bias)


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
        self._x, normed = _as_one(_add_norm, self._x, *self._waiting, *of_norm)
        self._waiting = None
        return normed


def explain(device: torch.device | str) -> str:
    """How many kernels the sums, norms and ReLUs of a step on `device` are, and why."""
    reason = _obstacle(torch.device(device).type)
    return "one kernel each, by torch.compile" if reason is None else f"torch's own ({reason})"


def _add_norm(
    x: Tensor, y: Tensor, bias: Tensor | None, shape: tuple[int, ...],
    norm_weight: Tensor | None, norm_bias: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x = x + Product(y, bias).sum()
    return x, F.layer_norm(x, shape, norm_weight, norm_bias, eps)


def _add_relu(y: Tensor, bias: Tensor) -> Tensor:
    return (y + bias).relu_()


def _as_one(function: Callable, x: Tensor, *others) -> Tensor | tuple[Tensor, Tensor]:
    """function(x, …), by one kernel in a step, where that is possible."""
    if x.shape[-2] == 1 and _obstacle(x.device.type) is None:
        function = _compiled(function)
    return function(x, *others)


@functools.cache
def _compiled(function: Callable) -> Callable:
    # Rows of more than 8192 numbers would be reduced in two kernels, so as to fill the GPU.
    return torch.compile(function, options={"split_reductions": False})


@functools.cache
def _obstacle(device_type: str) -> str | None:
    """Why nothing is compiled for a kind of device; None where steps are."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0"
    if device_type != "cuda":
        return f"on {device_type}"
    return None if importlib.util.find_spec("triton") else "triton is not installed"
