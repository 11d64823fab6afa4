"""Random matrices with zeros in chosen places: what formats and kernels are tried on."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from lab_utils.formats.checks import DTYPES

BLOCK = 32  # rows and columns of a cluster


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
    never zero. The same arguments give the same tensor, whatever the device.

    `pattern` is a name in `PATTERNS`. "random" has exactly round(sparsity · M · K) zeros; the
    others have about as many: each weight is drawn for itself, so that the count deviates by
    at most √(M · K) / 2 (one standard deviation), and is exact for sparsity 0 and 1.
    Raises ValueError for arguments out of range.
    """
    _check(M, K, sparsity, pattern, dtype, mean)
    generator = torch.Generator().manual_seed(seed)
    values = torch.empty(M, K, dtype=dtype).normal_(mean, 1.0, generator=generator)
    values.masked_fill_(values == 0, torch.finfo(dtype).tiny)
    zeros = PATTERNS[pattern].zeros(M, K, sparsity, generator)  # a product would make -0
    return values.masked_fill_(zeros, 0.0).to(device)


def _uniform(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    return _exactly(M * K, round(sparsity * M * K), generator).view(M, K)


def _clustered(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    return _by_block(M, K, sparsity, (BLOCK, BLOCK), 2.0, generator)


def _row_skewed(M: int, K: int, sparsity: float, generator: torch.Generator) -> Tensor:
    return _by_block(M, K, sparsity, (1, K), 1.5, generator)


@dataclass(frozen=True)
class Pattern:
    """Where zeros lie; `zeros(M, K, sparsity, generator)` is a bool [M, K], true at each zero."""

    description: str
    zeros: Callable[[int, int, float, torch.Generator], Tensor]


PATTERNS: dict[str, Pattern] = {
    "random": Pattern("every weight alike: what the papers measure on", _uniform),
    "clustered": Pattern(f"{BLOCK}x{BLOCK} blocks, some dense and some almost empty", _clustered),
    "row_skewed": Pattern("rows of very different density: unequal work per row", _row_skewed),
}


def _exactly(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Bool [n] with exactly `count` true, every such choice as likely as any other.

    Draws each element for itself, a little too seldom, and adds what is missing: no sort.
    """
    few = min(count, n - count)
    probability = max(0.0, few - 4 * math.sqrt(few)) / n
    chosen = torch.empty(n, dtype=torch.bool).bernoulli_(probability, generator=generator)
    while (missing := few - int(torch.count_nonzero(chosen))) < 0:
        # Too many, by four standard deviations: draw again.
        chosen.bernoulli_(probability, generator=generator)
    while missing:
        picks = torch.randint(n, (missing,), generator=generator)
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
    if sparsity in (0, 1):
        return torch.full((M, K), bool(sparsity))
    rows, cols = block
    logits = spread * torch.randn(-(-M // rows), -(-K // cols), generator=generator)
    area = _sizes(M, rows)[:, None] * _sizes(K, cols)
    by_block = torch.sigmoid(logits + _shift(logits, area / (M * K), sparsity))
    zeros = torch.empty(M, K, dtype=torch.bool)
    for i, band in enumerate(zeros.split(rows)):  # bands, so that the draws stay in the cache
        threshold = by_block[i].repeat_interleave(cols)[:K]
        torch.lt(torch.rand(band.shape, generator=generator), threshold, out=band)
    return zeros


def _sizes(length: int, block: int) -> Tensor:
    """Sizes of the blocks that `length` is cut into; the last may be smaller."""
    starts = torch.arange(0, length, block)
    return (length - starts).clamp(max=block)


def _shift(logits: Tensor, weight: Tensor, mean: float) -> float:
    """The number to add to `logits` for sigmoids whose weighted mean is `mean`; by bisection."""
    low, high = -100.0, 100.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        too_low = float((torch.sigmoid(logits.double() + middle) * weight).sum()) < mean
        low, high = (middle, high) if too_low else (low, middle)
    return high


def _check(M: int, K: int, sparsity: float, pattern: str, dtype: torch.dtype, mean: float) -> None:
    for name, size in (("M", M), ("K", K)):
        if not isinstance(size, Integral) or size < 1:
            raise ValueError(f"{name}={size!r} must be a whole number of at least 1")
    if not 0 <= sparsity <= 1:  # also refuses NaN
        raise ValueError(f"sparsity={sparsity!r} must lie between 0 and 1")
    if pattern not in PATTERNS:
        raise ValueError(f"pattern={pattern!r}: unknown; allowed: {', '.join(PATTERNS)}")
    if dtype not in DTYPES.values():
        raise ValueError(f"dtype={dtype}; allowed: torch.float16, torch.bfloat16")
    largest = torch.finfo(dtype).max / 2
    if not abs(mean) <= largest:
        raise ValueError(f"mean={mean!r} must lie between -{largest:g} and {largest:g} for {dtype}")
