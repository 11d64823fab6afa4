"""Sparse products, held against dense ones before they are timed."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from lab_utils import backends
from lab_utils.analysis.variants import variant_of, with_variants
from lab_utils.llm.model import OPT
from lab_utils.nn import SparseLinear

ROUNDINGS = 4  # of 16 bits, by which a sparse and a dense product may differ


def check_multiplied(format: str, device: torch.device | str) -> None:
    """Raise ValueError unless there are products of that format on the device."""
    backend = backends.for_device(torch.device(device))
    if variant_of(format).format not in backend.formats:
        allowed = ", ".join(with_variants(backend.formats))
        raise ValueError(f"format={format!r} is not multiplied on {device}; allowed: {allowed}")


def relative_error(found: Tensor, right: Tensor) -> float:
    """‖found − right‖ / ‖right‖; where `right` is zero, 0 for zeros and infinite for all else."""
    off, norm = float((found - right).norm()), float(right.norm())
    if norm:
        return off / norm
    return math.inf if off else 0.0  # NaN is something else, too


@torch.inference_mode()
def check_products(model: OPT, tokens: int) -> None:
    """Raise RuntimeError, naming the matrix, unless each sparse product is as exact as a dense one.

    Both are computed for the same `tokens` random rows, the dense one with the decoded matrix.
    """
    limit = ROUNDINGS * torch.finfo(model.dtype).eps
    for name, module in model.layers.named_modules():
        if not isinstance(module, SparseLinear):
            continue
        x = torch.randn(tokens, module.in_features, device=model.device).to(model.dtype)
        y = F.linear(x, module.weight.decode(), module.bias).float()
        error = relative_error(module(x).float(), y)
        if not error <= limit:  # nor NaN
            raise RuntimeError(
                f"layers.{name}: {module.weight.name} is wrong by {error:.1e} of the dense "
                f"product at {tokens} tokens; allowed: {limit:.1e}"
            )
