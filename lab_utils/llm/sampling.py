"""From logits to the next token: greedy, or at random with temperature, top-k and top-p.

Chance enters through `noise` alone, exponentially distributed numbers that are drawn outside: the
arg max of probability / noise falls on each token with its probability. So choosing is a fixed
sequence of operations on the device, which a CUDA graph can hold.
"""

import math
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from lab_utils.llm.checks import check_count

COLDEST = torch.finfo(torch.float32).tiny  # of temperatures that fp32 can divide by


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen; temperature 0 takes the most likely one.

    `top_k` keeps the k most likely tokens (and those as likely as the k-th); `top_p`, of those,
    the most likely ones that together have at least probability p. Raises ValueError for values
    out of range or of another kind, and for limits that temperature 0 would ignore.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        temperature, top_p = self.temperature, self.top_p
        if not isinstance(temperature, Real) or not 0 <= temperature < math.inf:  # nor NaN
            raise ValueError(f"temperature={temperature!r:.60}; allowed: finite numbers from 0")
        if self.top_k is not None:
            check_count("top_k", self.top_k, 1, more=", or None")
        if top_p is not None and not (isinstance(top_p, Real) and 0 < top_p <= 1):
            raise ValueError(f"top_p={top_p!r:.60}; allowed: numbers above 0, to 1, or None")
        if self.greedy and (self.top_k, self.top_p) != (None, None):
            raise ValueError(
                f"temperature=0 takes the most likely token, so top_k={self.top_k} and "
                f"top_p={top_p} would change nothing; allowed: None, or temperature above 0"
            )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def choose(self, logits: Tensor, noise: Tensor | None = None) -> Tensor:
        """Tokens [batch] for logits [batch, vocab] and, unless greedy, noise of the same shape."""
        if self.greedy:
            return logits.argmax(-1)
        return (self.probabilities(logits) / noise).argmax(-1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """[batch, vocab] in fp32: what tokens are drawn with."""
        scores = logits.float()
        # The most likely token has 0, which no temperature makes infinite.
        scores = (scores - scores.amax(-1, keepdim=True)) / max(self.temperature, COLDEST)
        if self.top_k is not None:
            least = scores.topk(min(self.top_k, scores.shape[-1])).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        chances = scores.softmax(-1)
        return chances if self.top_p is None else self._nucleus(chances)

    def _nucleus(self, chances: Tensor) -> Tensor:
        """The most likely tokens whose chances reach top_p, scaled to sum to 1."""
        falling, order = chances.sort(dim=-1, descending=True, stable=True)
        before = falling.cumsum(-1) - falling
        kept = falling.masked_fill((before > 0) & (before >= self.top_p), 0)  # 0: the most likely
        chances = torch.zeros_like(chances).scatter(-1, order, kept)
        return chances / chances.sum(-1, keepdim=True)
