"""Our own dense product with one vector: W is read once, as fast as memory allows."""

from collections.abc import Callable

import torch
from torch import Tensor

from lab_utils.baselines import native
from lab_utils.baselines.base import Baseline, Operand, check_activations, check_weights

STEP = 32 * 8  # elements that a warp reads of a row at a time
FEWEST_STEPS = 6  # of a warp: with fewer, adding up over lanes shows


class Gemv(Baseline):
    """kernels/baselines/gemv.cu: 16-byte loads, some warps per row, fp32 sums; N = 1 only."""

    name = "gemv"
    dense = True

    def problem(self, W: Tensor, N: int) -> str | None:
        if N != 1:
            return f"N={N}: gemv multiplies one column"
        return native.problem()

    def prepare(self, W: Tensor) -> Operand:
        check_weights(W)
        return Operand({"W": _aligned(W)}, W)

    def bind(self, operand: Operand, B: Tensor) -> Callable[[], Tensor]:
        check_activations(operand, B)
        if reason := self.problem(operand.represented(), B.shape[1]):
            raise RuntimeError(reason)
        W, x = operand.tensors["W"], _aligned(B)
        (M, K), y = W.shape, W.new_empty(W.shape[0], 1)
        numbers = M, K, warps_per_row(K)

        def run() -> Tensor:
            native.call("lscd_gemv", y.device, int(y.dtype == torch.bfloat16), W, x, y, *numbers)
            return y

        return run


def _aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy that begins where loads of 16 bytes may."""
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def warps_per_row(K: int) -> int:
    """How many of a block's 8 warps share a row of K columns: as many as have enough to read."""
    return next((warps for warps in (8, 4, 2) if warps * FEWEST_STEPS * STEP <= K), 1)
