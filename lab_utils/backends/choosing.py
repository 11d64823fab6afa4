"""Which format suits a product: what each is expected to take, before anything is encoded.

Times are those by which `crossover` compares ways: of GPUs that have rested, of random masks.
"""

from typing import NamedTuple

from lab_utils.analysis.memory import encoded_bytes
from lab_utils.analysis.variants import PACKED
from lab_utils.analysis.zero_row_24 import pairs_pay
from lab_utils.backends import hopper, hopper_wgmma
from lab_utils.backends.crossover import Product, dense_us, kernel_us
from lab_utils.backends.gpus import Gpu
from lab_utils.catalog import Device

MOST_COLUMNS = 128  # beyond, ways that decode A once are faster, and dense products are
HOPPER = "sm_90"
DENSE = "dense"
# Columns of a pass of each kernel, where its slices and chunks leave room for that.
WIDTHS = dict.fromkeys(("tiled_csl", "tca_bme"), (8, 16, 32, 64, 128))
ZERO_ROW_WIDTHS = dict.fromkeys((hopper.FORMAT, PACKED), (8, 16))
STRIP_WIDTHS = dict.fromkeys(hopper_wgmma.FORMATS, hopper_wgmma.WIDTHS)
# With fewer columns strips were 1.05 times as fast as zero-row 2:4 in 2 of 240 rows of an H200, and
# slower in the others: closer than costs can tell.
STRIPS_FROM = 17


class Expected(NamedTuple):
    """A product of A in a format, or "dense": its time, its speed-up over dense, and A's bytes."""

    format: str
    us: float
    speedup: float
    encoded_bytes: float


def expected(M: int, K: int, N: int, sparsity: float, gpu: Device) -> list[Expected]:
    """A [M, K] · B [K, N] on that GPU in every format with a kernel for that, fastest first.

    Variants are told apart where `encode` would choose otherwise. Raises ValueError for N outside
    of 1 to MOST_COLUMNS, and for an impossible shape or sparsity.
    """
    if not 1 <= N <= MOST_COLUMNS:
        raise ValueError(f"N={N!r}; allowed: 1 to {MOST_COLUMNS} columns")
    known, sizes = Gpu.of(gpu), {DENSE: encoded_bytes(DENSE, M, K, sparsity)}
    times = {DENSE: dense_us(Product(DENSE, sizes[DENSE], M, K, N, N), known)}
    pairs = pairs_pay(M, K, sparsity)
    for format, widths in _widths(N, gpu).items():
        if format == PACKED and not pairs:
            continue
        costs = PACKED if format == hopper.FORMAT and not pairs else format
        sizes[format] = encoded_bytes(format, M, K, sparsity)
        block_n = next((width for width in widths if width >= N), widths[-1])
        times[format] = kernel_us(Product(costs, sizes[format], M, K, N, block_n), known)
    ranked = sorted(times, key=times.__getitem__)
    return [Expected(name, times[name], times[DENSE] / times[name], sizes[name]) for name in ranked]


def _widths(N: int, gpu: Device) -> dict[str, tuple[int, ...]]:
    """Of the formats that are multiplied on that GPU, with so many columns."""
    if gpu.arch != HOPPER:
        return WIDTHS
    return WIDTHS | ZERO_ROW_WIDTHS | (STRIP_WIDTHS if N >= STRIPS_FROM else {})
