"""Which format suits a product: what each is expected to take, before anything is encoded.

Times are those by which `crossover` compares ways: of GPUs that have rested, of random masks.
"""

from typing import NamedTuple

from lab_utils.analysis.checked import is_integer
from lab_utils.analysis.gpu_products import DENSE, PUBLISHED, SM_90
from lab_utils.analysis.memory import encoded_bytes
from lab_utils.analysis.variants import PACKED
from lab_utils.analysis.zero_row_24 import Streams, streams_of
from lab_utils.backends import hopper, hopper_wgmma, strip_layouts
from lab_utils.backends.crossover import Product, costs_of_streams, dense_us, kernel_us
from lab_utils.backends.gpus import Gpu
from lab_utils.catalog import Device

MOST_COLUMNS = 128  # beyond, ways compete, and few products beat dense
# Columns of a pass of each kernel, and how many a product has that it is for: in 163 rows of more
# than 16 columns strips were faster than zero-row 2:4, in 1 of 144 of fewer, 1.05 times; but for
# bitmap_strips and coded_strips, which are up to 1.1 times as fast with 16 columns and fewer, up
# to .6 or .7.
PUBLISHED_WIDTHS = (8, 16, 32, 64, 128)
ZERO_ROW, ZERO_ROW_WIDTHS = (hopper.FORMAT, PACKED), (8, 16)
STRIPS = tuple(hopper_wgmma.FORMATS)
# Fractions of zeros from which chunks of strips leave room for each width of more than 64 columns.
WIDE_FROM = {
    strip_layouts.FORMAT: {80: 0.16, 96: 0.20, 112: 0.24, 128: 0.35, 160: 0.30},
    strip_layouts.LANES: {80: 0.0, 96: 0.0, 112: 0.62, 128: 0.69, 160: 0.69},
    strip_layouts.BITMAPS: {80: 0.0, 96: 0.0, 112: 0.0, 128: 0.12, 160: 0.0},
    strip_layouts.CODES: {80: 0.0, 96: 0.0, 112: 0.0, 128: 0.2, 160: 0.0},
}


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
    if not is_integer(N) or not 1 <= N <= MOST_COLUMNS:
        raise ValueError(f"N={N!r}; allowed: 1 to {MOST_COLUMNS} columns")
    known, sizes = Gpu.of(gpu), {DENSE: encoded_bytes(DENSE, M, K, sparsity)}
    times = {DENSE: dense_us(Product(DENSE, sizes[DENSE], M, K, N, N), known)}
    streams = streams_of(M, K, sparsity)
    for format, widths in widths_of(N, sparsity, gpu, streams).items():
        costs = costs_of_streams(streams) if format == hopper.FORMAT else format
        sizes[format] = encoded_bytes(format, M, K, sparsity)
        block_n, _ = strip_layouts.columns_of_a_pass(N, widths)
        times[format] = kernel_us(Product(costs, sizes[format], M, K, N, block_n), known)
    ranked = sorted(times, key=times.__getitem__)
    return [Expected(name, times[name], times[DENSE] / times[name], sizes[name]) for name in ranked]


def widths_of(N: int, sparsity: float, gpu: Device, streams: Streams) -> dict[str, tuple[int, ...]]:
    """By format, the widths of a pass that its kernel has; of formats for N columns on that GPU."""
    published = dict.fromkeys(PUBLISHED, PUBLISHED_WIDTHS)
    if gpu.arch != SM_90:
        return published
    if ZERO_ROW_WIDTHS[-1] >= N:
        told = ZERO_ROW[:1] if streams == Streams.PACKED else ZERO_ROW
        narrowest = dict.fromkeys(strip_layouts.OF_DENSE_WGMMA, strip_layouts.NARROWEST_WIDTHS)
        return published | dict.fromkeys(told, ZERO_ROW_WIDTHS) | narrowest
    narrow = strip_layouts.NARROW_WIDTHS
    wide = {
        name: tuple(width for width, least in WIDE_FROM[name].items() if sparsity >= least)
        for name in STRIPS
    }
    return published | {name: narrow + wide[name] for name in STRIPS}
