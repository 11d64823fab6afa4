"""Which weights become zero: how many, compared with which others, and how ties are resolved."""

import math
import re
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

WITHIN = ("row", "layer")
ROUNDED = 1e-3  # how far a sparsity may be from that of its N:M
N_OF_M = re.compile(r"([0-9]+):([0-9]+)")


@dataclass(frozen=True)
class Target:
    """A fraction `sparsity` (0 to 1) of zeros, and the groups of weights that each have it.

    `within` is "row" (each output row has round(sparsity · K) zeros: Wanda section 3), "layer"
    (the matrix has round(sparsity · M · K)), or "N:M" (at most N of M neighbours in a row stay).
    Raises ValueError for anything else, and where `sparsity`, which may be rounded to three
    digits, is not that of the N:M.
    """

    sparsity: float
    within: str = "row"

    def __post_init__(self) -> None:
        if not isinstance(self.sparsity, Real) or not 0 <= self.sparsity <= 1:  # nor NaN
            raise ValueError(f"sparsity={self.sparsity!r} must lie between 0 and 1")
        if self.within in WITHIN:
            return
        stay, of = _n_of_m(self.within)
        exact = 1 - stay / of
        if not math.isclose(self.sparsity, exact, abs_tol=ROUNDED):
            raise ValueError(f"sparsity={self.sparsity!r}: within={self.within!r} has {exact}")
        object.__setattr__(self, "sparsity", exact)  # zeros are counted by it

    @classmethod
    def n_of_m(cls, pattern: str) -> "Target":
        """The target of an N:M pattern such as "2:4", whose sparsity is 1 − N / M."""
        stay, of = _n_of_m(pattern)
        return cls(1 - stay / of, pattern)

    def holds(self, stay: int, of: int) -> bool:
        """Whether at most `stay` of `of` neighbours, whichever, are surely left."""
        if self.sparsity == 1:
            return True
        n, m = (1, 0) if self.within in WITHIN else _n_of_m(self.within)
        return m > 0 and (n <= stay if m % of == 0 else of % m == 0 and n * (of // m) <= stay)

    def group(self, K: int) -> int | None:
        """Neighbours of a row that are compared with one another; None: all of a matrix.

        Raises ValueError where rows of K weights are no whole number of groups.
        """
        if self.within in WITHIN:
            return K if self.within == "row" else None
        _, of = _n_of_m(self.within)
        if K % of:
            raise ValueError(f"within={self.within!r} needs rows of a multiple of {of}, not K={K}")
        return of


def zeros(scores: Tensor, target: Target) -> Tensor:
    """Bool [M, K], true where a weight becomes zero: the lowest `scores` [M, K] of each group.

    The count in each group is exact; of equal scores the first in the row (in the matrix, row by
    row) become zero. Scores are floats of any kind, on any device; NaN raises ValueError.
    """
    if torch.isnan(scores).any():
        raise ValueError("scores hold NaN; allowed: numbers")
    group = target.group(scores.shape[1]) or scores.numel()
    count = round(target.sparsity * group)
    return lowest(scores.reshape(-1, group), count).view(scores.shape)


def lowest(scores: Tensor, count: int) -> Tensor:
    """Bool [G, S], true at exactly the `count` lowest scores of each row, of equal ones the first.

    Nothing is sorted: what lies below the count-th score is in, and of what equals it the first.
    """
    if count in (0, scores.shape[1]):
        return torch.full_like(scores, bool(count), dtype=torch.bool)
    limit = scores.kthvalue(count, dim=1, keepdim=True).values
    below, level = scores < limit, scores == limit
    missing = count - below.sum(dim=1, keepdim=True, dtype=torch.int32)
    return below.logical_or_(level & (level.cumsum(dim=1, dtype=torch.int32) <= missing))


def cleared(weight: Tensor, mask: Tensor) -> Tensor:
    """`weight` with the bits of +0 where `mask` is true, and where it was −0."""
    return weight.masked_fill(mask.logical_or(weight == 0), 0)


def _n_of_m(pattern: str) -> tuple[int, int]:
    found = N_OF_M.fullmatch(pattern) if isinstance(pattern, str) else None
    stay, of = map(int, found.groups()) if found else (0, 0)
    if of == 0 or stay > of:
        raise ValueError(f"within={pattern!r}; allowed: {', '.join(WITHIN)}, or N:M as in '2:4'")
    return stay, of
