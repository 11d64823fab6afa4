"""Attention of one token for each sequence, by what is faster: torch's own, or batched products.

torch's attention on a GPU (cuDNN's) is made for many tokens. With few slots of many heads, two
batched products and a softmax between them take less time. Measured on an H200 with heads of 128,
and nowhere else: 9 to 39 % less up to 128 slots from 1792 heads of all sequences on, 0 to 14 % with
896; with 448 33 to 43 % more, and with 160 slots 5 to 8 % more.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from lab_utils.llm.one_kernel import compiles, in_step

FEW_SLOTS, MANY_HEADS = 128, 1024  # between 896 heads, which may gain nothing, and 1792


def of_one_token(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of q [batch, heads, 1, dim] to k and v [batch, heads, slots, dim].

    `mask` [batch, 1, 1, slots] is added to the scores.
    """
    heads, slots = q.shape[0] * q.shape[1], k.shape[2]
    if slots <= slots_by_products(heads, q.device, q.dtype):
        return by_products(q, k, v, mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def slots_by_products(heads: int, device: torch.device, dtype: torch.dtype) -> int:
    """Up to how many slots it goes `by_products`; 0: never. `heads`: of all sequences together."""
    pays = compiles(device) and dtype.itemsize == 2 and heads >= MANY_HEADS
    return FEW_SLOTS if pays else 0


def explain(heads: int, device: torch.device, dtype: torch.dtype) -> str:
    """How a step attends to what is in the cache."""
    few = slots_by_products(heads, device, dtype)
    return f"two batched products up to {few} slots, beyond that " * (few > 0) + "torch's own"


def by_products(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The same of fp16 or bf16, on a GPU.

    Scores are fp32, as those inside of torch's attention are; the weights of slots are rounded. Of
    each sequence some slot must not be masked.
    """
    flat = (q.flatten(0, 1), k.flatten(0, 1).mT)
    scores = torch.bmm(*flat, out_dtype=torch.float32).view(*q.shape[:3], -1)
    return in_step(_weights, scores, mask, 1 / math.sqrt(q.shape[-1])) @ v


def _weights(scores: Tensor, mask: Tensor, scale: float) -> Tensor:
    """What each slot counts, of mask's dtype."""
    return (scores * scale + mask).softmax(-1).to(mask.dtype)
