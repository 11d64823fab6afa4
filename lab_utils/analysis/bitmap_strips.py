"""Bitmaps and streams of values for each lane, in strips of 16 rows, in numbers: the bytes of a
random mask.

How many lines a chunk has depends on the fullest of its banks, and has no closed form: chunks are
simulated here, and second halves of lanes get banks as the encoder gives them.
(kernels/cpu/encode/bitmap_strips.h: the layout.) Draws are the same at all densities, so that
curves are smooth and never rise.
"""

import functools
import math

import numpy as np

from lab_utils.analysis.lane_24_strips import GEOMETRY_BYTES, LANES, chunks, rounds
from lab_utils.analysis.zero_row_24 import OFFSET_BYTES
from lab_utils.analysis.zero_row_24_strips import strips

HALVES, HALF_COLS = 2, 128  # of a lane: words 0 and 1, words 2 and 3
BITMAP_BYTES, LINES_AT, LINE_BYTES, MOST_LINES = 512, 640, 128, 64
SAMPLES = 1024  # chunks: their mean bytes are within 1 % of encodings


def parts(M: int, K: int, density: np.ndarray) -> dict[str, np.ndarray]:
    """Expected bytes of the encoding, by purpose.

    "values": lines, with halves not in use; "indices": bitmaps, banks and their padding; "offsets":
    tables.
    """
    densities = np.ravel(density)
    lines = np.zeros(densities.size)
    for rows, cols, count in chunks(M, K):
        for i, d in enumerate(densities if rows else ()):
            lines[i] += count * _mean_lines(rows, cols, float(d))
    count = strips(M) * rounds(K)
    found = {
        "values": LINE_BYTES * lines,
        "indices": LINES_AT * count + 0 * lines,
        "offsets": OFFSET_BYTES * (count + 1) + GEOMETRY_BYTES + 0 * lines,
    }
    return {name: part.reshape(np.shape(density)) for name, part in found.items()}


def lines_of(values: np.ndarray) -> np.ndarray:
    """Lines of chunks, int [chunks]; `values` [chunks, 32, 2]: of both halves of each lane.

    The second halves with the most values are in the banks of the first halves with the fewest.
    """
    ascending = np.sort(values, axis=1)
    most = (ascending[..., 0] + ascending[:, ::-1, 1]).max(1)
    return -(-most // 2)


@functools.lru_cache(1 << 12)
def _mean_lines(rows: int, cols: int, density: float) -> float:
    """Of chunks of rows x cols."""
    weights, draws = _weights(rows, cols), _draws()
    values = np.zeros(draws.shape, np.int64)
    for n in np.unique(weights):
        here = weights == n
        values[:, here] = _binomial_cdf(int(n), density).searchsorted(draws[:, here], "right")
    return float(lines_of(values).mean())


@functools.cache
def _draws() -> np.ndarray:
    """Uniform in [0, 1), [SAMPLES, lanes, halves]: one in each of SAMPLES parts, for each half."""
    rng = np.random.default_rng(0)
    shape = (SAMPLES, LANES, HALVES)
    part = rng.permuted(np.broadcast_to(np.arange(SAMPLES)[:, None, None], shape), axis=0)
    return (part + rng.random(shape)) / SAMPLES


def _binomial_cdf(n: int, p: float) -> np.ndarray:
    """P(at most k of n), k = 0 to n - 1."""
    return np.cumsum([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n)])


def _weights(rows: int, cols: int) -> np.ndarray:
    """Weights of each half of a lane that are inside of A, 0 to 64: [lanes, halves]."""
    row = np.arange(LANES)[:, None] // 4 + np.array([0, 8])  # of each lane
    pair = 2 * (np.arange(LANES) % 4)[:, None, None, None]  # its first column of each eight
    half, eight, one = np.ogrid[:HALVES, :16, :2]
    col = HALF_COLS * half + 8 * eight + pair + one
    return (row < rows).sum(1)[:, None] * (col < cols).sum((2, 3))
