"""Random matrices with zeros in chosen places: what formats and kernels are tried on."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from lab_utils.analysis.checked import is_integer
from lab_utils.formats.checks import DTYPES

BLOCK = 32  # rows and columns of a cluster
LARGEST_SEED = 2**63 - 1  # what torch, numpy and the commands take; torch would wrap others
GROUP = 4  # columns of which "two_four" leaves at most two non-zero


def random_sparse(
    M: int,
    K: int,
    sparsity: float,
    *,
    pattern: str = "random",
    dtype: torch.dtype = torch.float16,
    seed: int = 0,
    mean: float = 0.0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """A dense [M, K] tensor, fp16 or bf16, of which a fraction `sparsity` (0 to 1) is zero.

    Zeros are +0. The other values are normal with the given `mean` and deviation 1, finite and
    never zero. All of it is drawn on `device`: the same arguments give the same tensor on devices
    of one kind, but another one on a GPU than on the CPU.

    `pattern` is a name in `PATTERNS`. "random" has exactly round(sparsity · M · K) zeros; the
    others have about as many: each weight is drawn for itself, so that the count deviates by
    at most √(M · K) / 2 (one standard deviation), and is exact for sparsity 0 and 1.
    "two_four" is what the 2:4 format can hold, and needs a sparsity of at least 0.5.
    Raises ValueError for arguments out of range.
    """
    check_places(M, K, sparsity, pattern)
    check_seed(seed)
    _check_values(dtype, mean)
    generator = torch.Generator(device).manual_seed(int(seed))
    values = torch.empty(M, K, dtype=dtype, device=device).normal_(mean, 1.0, generator=generator)
    values.masked_fill_(values == 0, torch.finfo(dtype).tiny)
    zeros = PATTERNS[pattern].zeros(M, K, sparsity, generator)  # a product would make -0
    return values.masked_fill_(zeros, 0.0)


def _uniform(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    return _exactly(M * K, round(sparsity * M * K), generator).view(M, K)


def _clustered(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    return _by_block(M, K, sparsity, (BLOCK, BLOCK), 2.0, generator)


def _row_skewed(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    return _by_block(M, K, sparsity, (1, K), 1.5, generator)


def _two_four(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    """Two zeros at random places of each group of four, and as many of the others as are missing.

    Each of the others is zero with probability 2 · sparsity − 1.
    """
    like = {"device": generator.device}
    pairs = torch.combinations(torch.arange(GROUP, **like))  # all choices of two places
    choices = torch.zeros(len(pairs), GROUP, dtype=torch.bool, **like).scatter_(1, pairs, True)
    picks = torch.randint(len(pairs), (M, -(-K // GROUP)), generator=generator, **like)
    zeros = choices[picks].view(M, -1)[:, :K]
    return zeros | (torch.rand(M, K, generator=generator, **like) < 2 * sparsity - 1)


@dataclass(frozen=True)
class Pattern:
    """Where zeros lie; `zeros(M, K, sparsity, generator)` is a bool [M, K], true at each zero.

    `least_sparsity` is the smallest that the pattern can have.
    """

    description: str
    zeros: Callable[[int, int, float, torch.Generator], Tensor]
    least_sparsity: float = 0.0


PATTERNS: dict[str, Pattern] = {
    "random": Pattern("every weight alike: what the papers measure on", _uniform),
    "clustered": Pattern(f"{BLOCK}x{BLOCK} blocks, some dense and some almost empty", _clustered),
    "row_skewed": Pattern("rows of very different density: unequal work per row", _row_skewed),
    "two_four": Pattern("two zeros or more in every group of four: fits 2:4", _two_four, 0.5),
}


def _exactly(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Bool [n] with exactly `count` true, every such choice as likely as any other.

    Draws each element for itself, a little too seldom, and adds what is missing: no sort.
    """
    few, device = min(count, n - count), generator.device
    probability = max(0.0, few - 4 * math.sqrt(few)) / n
    chosen = torch.empty(n, dtype=torch.bool, device=device)
    chosen.bernoulli_(probability, generator=generator)
    while (missing := few - int(torch.count_nonzero(chosen))) < 0:
        # Too many, by four standard deviations: draw again.
        chosen.bernoulli_(probability, generator=generator)
    while missing:
        picks = torch.randint(n, (missing,), generator=generator, device=device)
        picks = picks[~chosen[picks]].unique()
        chosen[picks] = True
        missing -= picks.numel()
    return chosen if few == count else ~chosen


def _by_block(
    M: int,
    K: int,
    sparsity: float,
    block: tuple[int, int],
    spread: float,
    generator: torch.Generator,
) -> Tensor:
    """Bool [M, K]: each block has its own sparsity, and their mean is the one asked for.

    The logits of the sparsities are normal with deviation `spread`.
    """
    like = {"device": generator.device}
    if sparsity in (0, 1):
        return torch.full((M, K), bool(sparsity), **like)
    rows, cols = block
    logits = spread * torch.randn(-(-M // rows), -(-K // cols), generator=generator, **like)
    area = _sizes(M, rows, **like)[:, None] * _sizes(K, cols, **like)
    by_block = torch.sigmoid(logits + _shift(logits, area / (M * K), sparsity))
    zeros = torch.empty(M, K, dtype=torch.bool, **like)
    for i, band in enumerate(zeros.split(rows)):  # bands, so that the draws stay in the cache
        threshold = by_block[i].repeat_interleave(cols)[:K]
        torch.lt(torch.rand(band.shape, generator=generator, **like), threshold, out=band)
    return zeros


def _sizes(length: int, block: int, device: torch.device) -> Tensor:
    """Sizes of the blocks that `length` is cut into; the last may be smaller."""
    starts = torch.arange(0, length, block, device=device)
    return (length - starts).clamp(max=block)


def _shift(logits: Tensor, weight: Tensor, mean: float) -> float:
    """The number to add to `logits` for sigmoids whose weighted mean is `mean`; by bisection."""
    low, high = -100.0, 100.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        too_low = float((torch.sigmoid(logits.double() + middle) * weight).sum()) < mean
        low, high = (middle, high) if too_low else (low, middle)
    return high


def check_places(M: int, K: int, sparsity: float, pattern: str) -> None:
    """Raise ValueError, naming the argument, unless `random_sparse` can place such zeros."""
    for name, size in (("M", M), ("K", K)):
        if not is_integer(size) or size < 1:
            raise ValueError(f"{name}={size!r} must be a whole number of at least 1")
    if not isinstance(sparsity, Real) or not 0 <= sparsity <= 1:  # also refuses NaN
        raise ValueError(f"sparsity={sparsity!r} must lie between 0 and 1")
    if pattern not in PATTERNS:
        raise ValueError(f"pattern={pattern!r}: unknown; allowed: {', '.join(PATTERNS)}")
    if sparsity < (least := PATTERNS[pattern].least_sparsity):
        raise ValueError(f"sparsity={sparsity!r} must be at least {least} for pattern={pattern!r}")


def check_seed(seed: int) -> None:
    """Raise ValueError unless `seed` is one that torch and numpy alike can start from."""
    if not is_integer(seed) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed={seed!r:.60}; allowed: integers from 0 to {LARGEST_SEED}")


def _check_values(dtype: torch.dtype, mean: float) -> None:
    if dtype not in DTYPES.values():
        raise ValueError(f"dtype={dtype}; allowed: torch.float16, torch.bfloat16")
    largest = torch.finfo(dtype).max / 2
    if not abs(mean) <= largest:
        raise ValueError(f"mean={mean!r} must lie between -{largest:g} and {largest:g} for {dtype}")
