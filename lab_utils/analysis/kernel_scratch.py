"""Scratch memory of a sparse product on an H200: the most that its kernel needs, by shape alone.

Several workers have parts of the same rows of C. What each has is a partial sum, in fp32; a second
kernel, or one of the workers, adds them up. A launch looks at the mask as well
(`lab_utils.backends`): these are bounds for any mask, held by tests to the launches and to measured
rows.
"""

from lab_utils.analysis import lane_24_strips, zero_row_24_strips
from lab_utils.analysis.zero_row_24 import MULTIPROCESSORS, ROWS, slice_columns

# Of kernels/spmm/tiled_csl.cu and tca_bme.cu, by the widest block of so few columns: its rows, and
# the most workers for each multiprocessor that rows of .5 to .9 have (`backends.shares` chooses).
WORKERS = {
    "tiled_csl": {16: (128, 4), 32: (128, 4), 64: (128, 3), 128: (128, 2)},
    "tca_bme": {16: (64, 27), 32: (128, 10), 64: (128, 6), 128: (128, 2)},
}
TILE_K = 64  # columns of A that a worker of theirs has at least
WIDTHS, MOST_WARPS = (8, 16, 32, 64), 16  # of a block of hopper_mma.cu
STRIP_WIDTHS, ROW_BLOCK = (24, 32, 40, 48, 56, 64, 128), 256  # of one of hopper_wgmma.cu, at most
# Those of dense products, bitmap_strips and coded_strips; and the most sums of a block of more
# columns, rows times columns, by N.
DENSE_WIDTHS, WIDE_SUMS, WIDEST_SUMS = (8, 16, *STRIP_WIDTHS), {128: 0, 256: 192 * 192}, 128 * 384
# Of B as wgmma reads it, zeros included, at most; and how many more columns than N several passes
# have: they are of 56, whose tiles have 64, where chunks leave no room for wider ones.
TILE_WIDTHS, TILE_ROWS, WIDENED, MORE_COLUMNS = (32, 48, 64, 96, 128, 192), 256, 64 / 56, 40
# Formats of strips with a kernel by tiles.
TILED_STRIPS = ("lane_24_strips", "bitmap_strips", "coded_strips")
PAIR_ROWS = 128  # of either block of a pair of hopper_tiles_product.cuh
# Its columns, at most, by N: more than half of N where chunks leave no room for that.
PAIR_WIDTHS, WIDEST_PAIR = {320: 160, 384: 192, 448: 288, 512: 352}, 384


def scratch_bytes(format: str, M: int, K: int, N: int) -> int:
    """The most bytes that A [M, K] · B [K, N] takes beside A, B and C, unless A is decoded first.

    A is encoded as `format` chooses by itself; 0 for formats without a kernel. A copy of B, which
    `explain` tells of, is not counted.
    """
    if format in WORKERS:
        tiled = _of_pairs(N) if format == "tca_bme" and STRIP_WIDTHS[-1] < N else 0
        return 4 * max(_of_tiles(format, M, K, N), tiled)
    if format == "zero_row_24":
        return 4 * _of_chunks(M, K, N)
    strips = {
        "zero_row_24_strips": _of_strips(zero_row_24_strips.rounds(K, 1), N),
        "lane_24_strips": _of_strips(lane_24_strips.rounds(K), N),
        "bitmap_strips": _of_dense_wgmma(N),
        "coded_strips": _of_dense_wgmma(N),
    }.get(format, 0)
    tiled = format in TILED_STRIPS and STRIP_WIDTHS[-1] < N
    return 4 * max(strips, _of_pairs(N) if tiled else 0)


def _of_tiles(format: str, M: int, K: int, N: int) -> int:
    """Sums of the two row blocks that each worker's share of the tiles begins and ends in."""
    width = next((width for width in WORKERS[format] if width >= N), max(WORKERS[format]))
    rows, each = WORKERS[format][width]
    tiles = -(-M // rows) * -(-K // TILE_K)
    return min(each * MULTIPROCESSORS, tiles) * 2 * N * rows


def _of_chunks(M: int, K: int, N: int) -> int:
    """Sums of 64 rows of a slice of K, of each warp that has some of their chunks."""
    slices = -(-K // slice_columns(M, K))
    segments = MOST_WARPS * max(MULTIPROCESSORS, slices) + slices * -(-M // ROWS)
    return segments * ROWS * _whole(N, WIDTHS)


def _of_strips(rounds: int, N: int) -> int:
    """Sums of two row blocks of each thread block, whose passes stand side by side; and B, two
    elements in a word.
    """
    each = ROW_BLOCK * min(_whole(N, STRIP_WIDTHS), STRIP_WIDTHS[-1])
    many = int(WIDENED * N) + MORE_COLUMNS
    columns = many if TILE_WIDTHS[-1] < N else _whole(N, TILE_WIDTHS)
    return 2 * MULTIPROCESSORS * each + rounds * TILE_ROWS * columns // 2


def _of_dense_wgmma(N: int) -> int:
    """Sums alone: products read B as it lies."""
    each = ROW_BLOCK * min(_whole(N, DENSE_WIDTHS), STRIP_WIDTHS[-1])
    wide = next((sums for most, sums in WIDE_SUMS.items() if most >= N), WIDEST_SUMS)
    return 2 * MULTIPROCESSORS * max(each, wide)


def _of_pairs(N: int) -> int:
    """By tiles: sums of parts of row blocks, at most one more for each pair than it has."""
    columns = next((width for most, width in PAIR_WIDTHS.items() if most >= N), WIDEST_PAIR)
    return 2 * (MULTIPROCESSORS - 1) * PAIR_ROWS * columns


def _whole(N: int, widths: tuple[int, ...]) -> int:
    """Columns of all passes: of the narrowest that is wide enough, or of several of the widest."""
    return next((width for width in widths if width >= N), -(-N // widths[-1]) * widths[-1])
