"""From how many columns on A is decoded for pairs of thread blocks, or once for all.

A kernel that decodes A while it multiplies does so again for every so many columns: a pass. Times
are those of bytes at the GPU's bandwidth and of arithmetic at its peak (data/devices.yaml), times
what rows of an H200 say, of READ and zero-row 2:4 those of an H100, too (data/measured; tests
hold the numbers to rows of both)::

    kernel         passes · ((a + e · n) · encoded bytes + (b + (c + h · part of B that the L2 does
                   not hold) · n^1.5) · dense bytes + far)
    far            f · (encoded bytes beyond g · dense bytes): entries that rings do not hold
    decoding       d · (encoded bytes, read, + dense bytes, written)
    dense product  STREAM · dense bytes and its arithmetic at DENSE_PEAK, joined by their L4 norm:
                   little more than what takes longer
    tiles          cost · (1 - UNUSED · the part of their columns that N has not) · the arithmetic
                   of 512 columns at a peak of their own + passes · far
                   cost: of all passes, in those of 512 columns (backends/hopper_tiles.py)

and what it takes to start, and to add up n columns: each pass of a kernel, but once where they
stand side by side; for the others each piece of A. n: columns of a pass / 64. Bytes of a kernel
stand for what they keep its multiprocessors busy with: on another GPU they take as long as on an
H200, by clocks, but no pass is faster than memory reads A (READ), or the datasheet's peak allows.
(No other GPU than these two has any rows.) Decoding is fitted to rows of each format, but for
Tiled-CSL, which is assumed to take as long as zero-row 2:4; TCA-BME does, by its rows.
"""

import math
from typing import NamedTuple, Self

from lab_utils.analysis.compression import VALUE_BYTES
from lab_utils.analysis.variants import PACKED
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.backends.gpus import Gpu, fitted
from lab_utils.backends.ways import DECODED, FUSED, TILES
from lab_utils.formats import SparseMatrix, ZeroRow24

NESTED = f"{ZeroRow24.name}, nested"  # whose costs are not those of pairs
READ = 1.08  # least time of a pass, in that of reading A: of rows of an H100; of streams, more
STREAM = 1.07  # time of a dense product of few columns, in that of reading its weights
DENSE_PEAK = 0.78  # of the datasheet's peak: dense products of 512 columns
START_US = 4.8  # of a dense product
TILES_START_US = 10.0
TILES_COLUMNS = 512  # of the pass that others are compared to
UNUSED = 0.13  # of a column's arithmetic by tiles, which one that N has not spares
PRODUCT_COLUMNS = 256  # of a wgmma; wider blocks have two, of one decoded A
HELD_BYTES = 25e6  # of B, beside A and C: GPUs that multiply strips have an L2 of 50 MB
LEAST_TILED = 129  # columns: with fewer, lanes by tiles never are the fastest; TCA-BME is unknown


class Cost(NamedTuple):
    """Of a pass over A: a, b and c above, in the time of reading so many bytes; its start, which
    all passes have together if they stand side by side. And e; d, of decoding first; f, g and h;
    what partial sums take, for each 64 columns; what is added to READ for each 64; of the time that
    bytes stand for, the part that it takes with blocks of more than PRODUCT_COLUMNS.
    """

    encoded: float
    dense: float
    columns: float
    start_us: float
    side_by_side: bool = False
    entries: float = 0.0
    decoding: float = 1.42
    far: float = 0.0
    near: float = 1.0
    beyond: float = 0.0
    sums_us: float = 0.0
    read: float = 0.0
    wide: float = 1.0


COSTS = {
    "tiled_csl": Cost(0.85, 0.27, 0.57, 9.4),
    "tca_bme": Cost(0.23, 1.37, 0.65, 8.9),
    "zero_row_24": Cost(0.48, 0.06, 0.95, 3.2, sums_us=13.5),
    PACKED: Cost(0.81, 0.156, 0.83, 3.0, sums_us=12.7, read=0.4),
    NESTED: Cost(0.957, 0.036, 0.453, 1.0, decoding=1.8, sums_us=22.1, read=0.2),
    "zero_row_24_strips": Cost(0.60, 0.24, 0.23, 9.8, side_by_side=True, beyond=0.09),
    "lane_24_strips": Cost(
        0.0, 0.213, 0.047, 9.4, side_by_side=True, entries=0.796, decoding=0.95, far=8.2,
        near=0.472, beyond=0.05,
    ),
    "bitmap_strips": Cost(
        0.123, 0.469, 0.113, 5.4, side_by_side=True, entries=0.173, decoding=1.15, beyond=0.012,
        sums_us=3.0, wide=0.92,
    ),
    "coded_strips": Cost(
        0.083, 0.393, 0.102, 5.2, side_by_side=True, entries=0.2, decoding=1.16, beyond=0.019,
        sums_us=2.6, wide=0.94,
    ),
}  # fmt: skip


class TilesCost(NamedTuple):
    """By tiles: a pass's part of the datasheet's peak; f, g (as those of the kernel's `Cost`)."""

    peak: float
    far: float = 0.0
    near: float = 1.0


TILES_COSTS = {
    "tca_bme": TilesCost(0.665),
    "lane_24_strips": TilesCost(0.75, far=11.5, near=0.42),
    "bitmap_strips": TilesCost(0.71, far=0.6, near=0.35),  # no entries, but longer chunks
    "coded_strips": TilesCost(0.73, far=0.6, near=0.35),
}


class Product(NamedTuple):
    """What decides: whose costs, and the bytes of A [M, K], N, the columns of a kernel's pass, the
    pieces that A is decoded in; by tiles the passes, their cost and columns: 0 where that is no
    way.
    """

    format: str
    encoded_bytes: int
    M: int
    K: int
    N: int
    block_n: int
    pieces: int = 1
    tiles_passes: int = 0
    tiles_cost: float = 0.0
    tiles_columns: int = 0

    def by_tiles(self, passes: int, cost: float, columns: int) -> Self:
        """The same, which tiles can multiply as well."""
        return self._replace(tiles_passes=passes, tiles_cost=cost, tiles_columns=columns)

    @property
    def dense_bytes(self) -> int:
        return VALUE_BYTES * self.M * self.K

    @property
    def passes(self) -> int:
        return -(-self.N // self.block_n)


def costs_of(A: SparseMatrix) -> str:
    """Whose COSTS a product of A has: its format's, of zero-row 2:4 its streams'."""
    return costs_of_streams(A.streams) if isinstance(A, ZeroRow24) else A.name


def costs_of_streams(streams: Streams) -> str:
    """Whose COSTS zero-row 2:4 has."""
    return {Streams.PACKED: PACKED, Streams.NESTED: NESTED}.get(streams, ZeroRow24.name)


def kernel_us(product: Product, gpu: Gpu) -> float:
    """Time of the kernel that decodes while it multiplies, in µs."""
    cost, n = COSTS[product.format], product.block_n / 64
    encoded = (cost.encoded + cost.entries * n) * product.encoded_bytes
    beyond = cost.beyond * max(0.0, 1 - HELD_BYTES / (VALUE_BYTES * product.K * product.N))
    dense = (cost.dense + (cost.columns + beyond) * n**1.5) * product.dense_bytes
    starts = 1 if cost.side_by_side else product.passes
    far = cost.far * max(0.0, product.encoded_bytes - cost.near * product.dense_bytes)
    wide = cost.wide if product.block_n > PRODUCT_COLUMNS else 1.0
    busy = _busy_us(wide * (encoded + dense + far), gpu)
    read = (READ + cost.read * n) * _read_us(product.encoded_bytes, gpu)
    least = _arithmetic_us(product, product.block_n, 1.0, gpu)
    start = cost.start_us + cost.sums_us * n
    return starts * start + product.passes * max(busy, read, least)


def decoding_us(product: Product, gpu: Gpu) -> float:
    """Time of writing A dense, in µs."""
    streamed = _read_us(product.encoded_bytes + product.dense_bytes, gpu)
    return START_US * product.pieces + COSTS[product.format].decoding * streamed


def dense_us(product: Product, gpu: Gpu) -> float:
    """Time of the dense product, in µs."""
    arithmetic = _arithmetic_us(product, product.N, DENSE_PEAK, gpu)
    streamed = STREAM * _read_us(product.dense_bytes, gpu)
    return START_US * product.pieces + (streamed**4 + arithmetic**4) ** 0.25


def tiles_us(product: Product, gpu: Gpu) -> float:
    """Time of the kernel that decodes A into tiles, in µs; infinite where that is no way."""
    if not product.tiles_passes:
        return math.inf
    cost = TILES_COSTS[product.format]
    arithmetic = _arithmetic_us(product, TILES_COLUMNS, cost.peak, gpu)
    far = cost.far * max(0.0, product.encoded_bytes - cost.near * product.dense_bytes)
    entries = product.tiles_passes * _busy_us(far, gpu)
    unused = 1 - product.N / product.tiles_columns
    return TILES_START_US + product.tiles_cost * (1 - UNUSED * unused) * arithmetic + entries


def fastest(product: Product, gpu: Gpu) -> tuple[str, str]:
    """The way that is expected to be fastest, and why."""
    decoding, dense = decoding_us(product, gpu), dense_us(product, gpu)
    kernel, tiles = kernel_us(product, gpu), tiles_us(product, gpu)
    times = {DECODED: decoding + dense, FUSED: kernel, TILES: tiles}
    passes = "1 pass" if product.passes == 1 else f"{product.passes} passes"
    told = {
        DECODED: f"{decoding:.0f} µs for {product.encoded_bytes / 1e6:.1f} MB read and "
        f"{product.dense_bytes / 1e6:.1f} written, {dense:.0f} for the dense product",
        FUSED: f"{kernel:.0f} µs for {passes} of {product.block_n} columns that decode",
        TILES: f"{tiles:.0f} µs by tiles",
    }
    order = sorted((way for way in times if times[way] < math.inf), key=times.__getitem__)
    return order[0], f"{'; '.join(told[way] for way in order)} ({gpu.title})"


def _arithmetic_us(product: Product, columns: int, peak: float, gpu: Gpu) -> float:
    return 2 * product.M * product.K * columns / (peak * gpu.peak_tflops * 1e6)


def _busy_us(nbytes: float, gpu: Gpu) -> float:
    """Of its multiprocessors, with what takes the fitted GPU as long as reading so many bytes."""
    return _read_us(nbytes, fitted()) * fitted().clocks_per_us / gpu.clocks_per_us


def _read_us(nbytes: float, gpu: Gpu) -> float:
    return nbytes / gpu.bandwidth_gb_s / 1e3
