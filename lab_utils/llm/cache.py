"""The KV cache, allocated once, and attention that writes into it.

Keys and values lie in slots. Prompts end in the same slot, so that every sequence writes its next
token into the same slot too; a prompt shorter than the longest starts in a later slot, `starts`,
and the slots before that are masked:

    slot      0 1 2 3 4 5 6 7 …        position = slot − start
    short     . . . p p p g g          start 3: its first token is at position 0
    long      p p p p p p g g          start 0
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lab_utils.analysis.memory import whole_slots
from lab_utils.llm.attention import of_one_token
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.one_kernel import in_step
from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.llm.residual import Product


class KVCache:
    """Keys and values of all layers: `data` [layers, 2, batch, heads, slots, head_dim].

    `slots` is rounded up as `whole_slots` says. With `ranks`, the heads of one rank. All zeros at
    first: what is masked must still be finite.
    """

    def __init__(
        self,
        config: OPTConfig,
        batch: int,
        slots: int,
        ranks: Ranks = ALONE,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        heads, _ = config.share(ranks.world)
        self.slots = whole_slots(slots)
        shape = (config.layers, 2, batch, heads, self.slots, config.head_dim)
        self.data = torch.zeros(shape, device=device, dtype=dtype)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


@dataclass
class PromptAttention:
    """Attention among the tokens of the prompts, which also fills slots 0 and on.

    `mask` [batch, 1, tokens, tokens], added to the scores, where prompts differ in length.
    """

    cache: KVCache
    mask: Tensor | None = None

    def __call__(self, layer: int, qkv: Product) -> Tensor:
        """qkv: [3, batch, heads, tokens, dim]; result as each of the three."""
        q, *kv = qkv.sum()
        for held, new in zip(self.cache.data[layer], kv, strict=True):
            held[:, :, : q.shape[2]] = new
        return F.scaled_dot_product_attention(
            q, *kv, attn_mask=self.mask, is_causal=self.mask is None
        )


@dataclass
class StepAttention:
    """Attention of one token for each sequence to the first `mask.shape[-1]` slots of the cache.

    `slot` [1], on the device: where it stands. `mask` [batch, 1, 1, slots] is added to the scores.
    """

    cache: KVCache
    slot: Tensor
    mask: Tensor

    def __call__(self, layer: int, qkv: Product) -> Tensor:
        """qkv: [3, batch, heads, 1, dim]; result as each of the three."""
        held = self.cache.data[layer]
        q = in_step(_held, *qkv, *held, self.slot)
        k, v = held[..., : self.mask.shape[-1], :]
        return of_one_token(q, k, v, self.mask)


def _held(y: Tensor, bias: Tensor | None, keys: Tensor, values: Tensor, slot: Tensor) -> Tensor:
    """q of q, k and v = y + bias; the others go into the cache."""
    q, k, v = y if bias is None else (part + own for part, own in zip(y, bias, strict=True))
    keys.index_copy_(2, slot, k)
    values.index_copy_(2, slot, v)
    return q


def prompt_mask(starts: Tensor, tokens: int, dtype: torch.dtype) -> Tensor:
    """[batch, 1, tokens, tokens]: 0 where a slot may look, −inf elsewhere, for `starts` [batch].

    A slot before its sequence's start may look at itself: a row of −inf alone would give NaN.
    """
    slot = torch.arange(tokens, device=starts.device)
    earlier = slot[None, :] <= slot[:, None]
    own = slot[None, None, :] >= starts[:, None, None]
    seen = earlier & (own | torch.eye(tokens, dtype=torch.bool, device=starts.device))
    return _added(seen, dtype)[:, None]


def step_mask(starts: Tensor, slot: Tensor, slots: int, dtype: torch.dtype) -> Tensor:
    """[batch, 1, 1, slots]: 0 from `starts` [batch] to `slot` [1], −inf elsewhere."""
    places = torch.arange(slots, device=starts.device)
    seen = (places >= starts[:, None]) & (places <= slot)
    return _added(seen, dtype)[:, None, None]


def _added(seen: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, -torch.inf)
