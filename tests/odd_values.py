"""Weights that few kernels are tried with, for the tests of every kernel."""

import torch
from matrices import ODD_BITS
from torch import Tensor


def with_odd_values(W: Tensor, format: str) -> Tensor:
    """`W` with an odd value in each of its first rows: any, or finite where `format` needs it."""
    signed = torch.tensor([b - (1 << 16 if b >= 1 << 15 else 0) for b in ODD_BITS])
    odd = signed.to(torch.int16).view(W.dtype)
    for row, value in enumerate(odd[odd.isfinite()] if "zero_row" in format else odd):
        W[row, 3 * row] = value
    return W
