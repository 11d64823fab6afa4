"""cuBLAS through torch: the dense product in torch's two orders, with sums in fp32 throughout."""

from collections.abc import Callable

import torch
from torch import Tensor

from lab_utils.backends.decoded import exact_sums
from lab_utils.baselines import native
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights


class _Cublas(Baseline):
    dense = True

    def problem(self, W: Tensor, N: int) -> str | None:
        return native.no_gpu()

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        return Operand({"W": W}, W)


class CublasMm(_Cublas):
    """torch.mm(W, B): C in rows."""

    name = "cublas_mm"

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        W = operand.tensors["W"]
        C = W.new_empty(W.shape[0], B.shape[1])

        def run() -> Tensor:
            with exact_sums:
                return torch.mm(W, B, out=C)

        return run


class CublasLinear(_Cublas):
    """What torch.nn.functional.linear(x, W) calls: C in columns, like its activations."""

    name = "cublas_linear"

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        x, W = B.T, operand.tensors["W"]
        y = W.new_empty(B.shape[1], W.shape[0])

        def run() -> Tensor:
            with exact_sums:
                return torch.mm(x, W.T, out=y).T

        return run
