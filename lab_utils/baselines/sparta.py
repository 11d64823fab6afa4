"""SparTA in fp16, as in Flash-LLM (section 6.1): 2:4 by cuSPARSELt, the remainder as CSR."""

from collections.abc import Callable

import torch
from torch import Tensor

from lab_utils.baselines import csr_simt, native, two_four
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights


class SparTA(Baseline):
    """A = A1 + A2, split as `formats.sparta` does it; C = A1 · B, then A2 · B is added to it.

    cuSPARSELt gives 16-bit results, so that A1 · B is rounded before A2 · B, in fp32, is added:
    two roundings. The remainder is multiplied by `csr_simt`.
    """

    name = "sparta"
    roundings = 2

    def __init__(self) -> None:
        self._products = two_four.Products()

    def problem(self, W: Tensor, N: int) -> str | None:
        return two_four.problem(W) or native.problem()

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        first, rest = split(W)
        return Operand({"packed": torch._cslt_compress(first), **csr_simt.arrays(rest)}, W)

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        remainder = dict(operand.tensors)
        structured = self._products.bind(remainder.pop("packed"), B)
        add_remainder = csr_simt.bind(remainder, B)
        return lambda: add_remainder(structured(), add=True)


def split(W: Tensor) -> tuple[Tensor, Tensor]:
    """W [M, K] as the first two non-zeros of each aligned group of four, and the others."""
    stored = (W.view(torch.int16) != 0).view(W.shape[0], -1, two_four.GROUP)
    rank = stored.cumsum(2, dtype=torch.int8)
    rest = (stored & (rank > two_four.KEPT)).view_as(W)
    return W.masked_fill(rest, 0), W.masked_fill(~rest, 0)
