"""Zero-row 2:4 in strips of 16 rows, in numbers: the bytes of a random mask.

A has density d. A row of a group of three columns has all three weights with probability d³, and
one of them has no slot. With levels = 0 it is an entry of its chunk, whose eight places a step are
filled in turn: three by groups with an even number, three by those with an odd one. With levels = 1
it stands in a chunk of level 1, which has density d³, and whose groups again have three with
probability d⁹; other middle weights follow where that spares a zero (zero_row_24_padding).
(kernels/cpu/encode/zero_row_24_strips.h: the layout. Bank conflicts are counted by
`lab_utils.analysis.zero_row_24_streams.wavefronts`, since streams lie as they do there.)
"""

import math
from collections.abc import Iterator

import numpy as np

from lab_utils.analysis.zero_row_24 import COLS as TILE_COLS
from lab_utils.analysis.zero_row_24 import (
    METADATA_BYTES,
    OFFSET_BYTES,
    ROWS,
    STARTS_BYTES,
    TAIL_BYTES,
    TILE_ROWS,
)
from lab_utils.analysis.zero_row_24_expected import cut
from lab_utils.analysis.zero_row_24_padding import density_of_level, padding_of_stream, sending

COLS = 192  # of a chunk: four tiles side by side
STEP_BYTES, GEOMETRY_BYTES = 32, 12
# Sizes are rounded up to 16 bytes, from multiples of 4; of a chunk without values from 580.
ROUNDING_BYTES, ROUNDING_OF_EMPTY = 6, 12
FULL_GROUPS = 1 / 64  # of all groups: where weights without a slot get chunks instead of entries


def strips(M: int) -> int:
    """Strips of 16 rows: four for each 64 rows, begun ones included."""
    return ROWS // TILE_ROWS * -(-M // ROWS)


def rounds(K: int, levels: int) -> int:
    """Chunks of a strip: regular ones and, with levels = 1, one of level 1 for three of them."""
    regular = -(-K // COLS)
    return regular + levels * -(-regular // 3)


def parts(M: int, K: int, density: np.ndarray, levels: int | None = None) -> dict[str, np.ndarray]:
    """Expected bytes of the encoding, by purpose, before streams are moved for their banks.

    "values": weights, the zeros beside them and at the end of chunks; "indices": metadata, and
    entries but for their values; "offsets": starts of streams, and tables. `levels` None: what
    `ZeroRow24Strips.encode` chooses, 1 below 75 % sparsity and 0 above.
    """
    if levels is None:
        entries, chunks = (_parts(M, K, density, levels) for levels in (0, 1))
        many = density**3 > FULL_GROUPS
        return {name: np.where(many, chunks[name], entries[name]) for name in entries}
    return _parts(M, K, density, levels)


def steps_of_chunk(rows: int, cols: int, density: np.ndarray) -> np.ndarray:
    """Expected steps of entries of a chunk of rows x cols: as many as its fuller three places take.

    Groups with even and odd numbers fill three places each, in turn; the number of full ones is
    binomial.
    """
    groups = cols // 3
    even, odd = (rows * n for n in (groups - groups // 2, groups // 2))
    below = _binomial_cdf(even, density**3) * _binomial_cdf(odd, density**3, even)
    return (1 - below[..., ::3]).sum(-1)  # sum over k of P(more than 3 k of either)


def _parts(M: int, K: int, density: np.ndarray, levels: int) -> dict[str, np.ndarray]:
    count = strips(M) * rounds(K, levels)
    padding, rounding, entries, steps = (0 * density for _ in range(4))
    for rows, n, cols, d, last in _chunks(M, K, density, levels):
        padding = padding + n * rows / 2 * _padding(cols, density, levels, last)
        empty = (1 - d) ** (rows * cols)
        rounding = rounding + n * (ROUNDING_BYTES + empty * (ROUNDING_OF_EMPTY - ROUNDING_BYTES))
        if last:
            entries = entries + n * rows * (cols // 3) * d**3
            steps = steps + n * steps_of_chunk(rows, cols, d)
    values = 2 * M * K * density + 2 * padding + TAIL_BYTES * count + rounding
    return {
        "values": values,
        "indices": METADATA_BYTES[True] * count + STEP_BYTES * steps - 2 * entries,
        "offsets": (STARTS_BYTES + OFFSET_BYTES) * count + OFFSET_BYTES + GEOMETRY_BYTES,
    }


def _chunks(
    M: int, K: int, density: np.ndarray, levels: int
) -> Iterator[tuple[int, int, int, np.ndarray, bool]]:
    """Rows, number, columns and density of chunks; and whether what they cannot hold is entries."""
    below = strips(M) - -(-M // TILE_ROWS)  # strips that have no rows of A
    for rows, across in (*cut(M, TILE_ROWS), (0, below)):
        for cols, n in cut(K, COLS):
            yield rows, across * n, cols, density, levels == 0
        for cols, n in cut(K, 3 * COLS) if levels else ():
            yield rows, across * n, cols // 3, density**3, True


def _padding(cols: int, density: np.ndarray, levels: int, last: bool) -> np.ndarray:
    """Zeros beside lone values of two rows of a chunk; `last`: nothing leaves it for level 1."""
    d = density_of_level(density) if levels else density

    def of_tile(width: int) -> np.ndarray:
        if levels and not last:
            return sending(density, round(2 * width / 3))[0]
        return padding_of_stream(d, 2 * width / 3)

    return 0 * density + sum(n * of_tile(width) for width, n in cut(cols, TILE_COLS))


def _binomial_cdf(n: int, p: np.ndarray, most: int | None = None) -> np.ndarray:
    """P(at most k of n), k = 0 to `most` (n): [..., most + 1]."""
    k, p = np.arange(n + 1), np.asarray(p)[..., None]
    ways = np.array([float(math.comb(n, int(i))) for i in k])
    cdf = np.minimum((ways * p**k * (1 - p) ** (n - k)).cumsum(-1), 1)
    beyond = np.ones((*cdf.shape[:-1], (n if most is None else most) - n))
    return np.concatenate([cdf, beyond], axis=-1)
