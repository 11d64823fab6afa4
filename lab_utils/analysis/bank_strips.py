"""Lanes whose values have banks, in numbers: what bitmap_strips and coded_strips share.

How many lines a chunk has depends on the fullest of its banks, and has no closed form: chunks are
simulated here, and second halves of lanes get banks as the encoder gives them.
(kernels/cpu/encode/banks.h: the layout.) Draws are the same at all densities, so that curves are
smooth and never rise.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab_utils.analysis.lane_24_strips import GEOMETRY_BYTES, LANES, chunks, rounds
from lab_utils.analysis.zero_row_24 import OFFSET_BYTES
from lab_utils.analysis.zero_row_24_strips import strips

HALVES, HALF_COLS = 2, 128  # of a lane: words 0 and 1, words 2 and 3
LINE_BYTES = 128
SAMPLES = 1024  # chunks: their mean bytes are within 1 % of encodings


@dataclass(frozen=True)
class Layout:
    """What a format has of its own. Its banks hold *pieces*: values, or words of two."""

    indices: int  # bytes of a chunk that say where its values are
    lines_at: int  # bytes before its lines
    in_line: int  # pieces of a bank in a line
    begin: tuple[int, ...]  # of each bank: pieces that are no lane's
    # P(at most k pieces of a half), k below the most; by its pairs that have two places inside of
    # A, those that have one, and the density.
    cdf: Callable[[int, int, float], np.ndarray]


def parts(layout: Layout, M: int, K: int, density: np.ndarray) -> dict[str, np.ndarray]:
    """Expected bytes of the encoding, by purpose.

    "values": lines, with halves not in use; "indices": what says where they are, with paddings;
    "offsets": tables.
    """
    densities = np.ravel(density)
    lines = np.zeros(densities.size)
    for rows, cols, count in chunks(M, K):
        for i, d in enumerate(densities):
            lines[i] += count * _mean_lines(layout, rows, cols, float(d) if rows else 0.0)
    count = strips(M) * rounds(K)
    found = {
        "values": LINE_BYTES * lines - (layout.indices - layout.lines_at) * count,
        "indices": layout.indices * count + 0 * lines,
        "offsets": OFFSET_BYTES * (count + 1) + GEOMETRY_BYTES + 0 * lines,
    }
    return {name: part.reshape(np.shape(density)) for name, part in found.items()}


def lines_of(layout: Layout, pieces: np.ndarray) -> np.ndarray:
    """Lines of chunks, int [chunks]; `pieces` [chunks, 32, 2]: of both halves of each lane.

    The second halves with the most pieces are in the banks that are the least full without them.
    """
    first = np.sort(pieces[..., 0] + layout.begin, axis=1)
    second = np.sort(pieces[..., 1], axis=1)[:, ::-1]
    return -(-(first + second).max(1) // layout.in_line)


@functools.lru_cache(1 << 12)
def _mean_lines(layout: Layout, rows: int, cols: int, density: float) -> float:
    """Of chunks of rows x cols."""
    pairs, draws = _pairs(rows, cols), _draws()
    pieces = np.zeros(draws.shape, np.int64)
    for whole, single in np.unique(pairs.reshape(-1, 2), axis=0).tolist():
        here = (pairs == [whole, single]).all(2)
        pieces[:, here] = layout.cdf(whole, single, density).searchsorted(draws[:, here], "right")
    return float(lines_of(layout, pieces).mean())


@functools.cache
def _draws() -> np.ndarray:
    """Uniform in [0, 1), [SAMPLES, lanes, halves]: one in each of SAMPLES parts, for each half."""
    rng = np.random.default_rng(0)
    shape = (SAMPLES, LANES, HALVES)
    part = rng.permuted(np.broadcast_to(np.arange(SAMPLES)[:, None, None], shape), axis=0)
    return (part + rng.random(shape)) / SAMPLES


def _pairs(rows: int, cols: int) -> np.ndarray:
    """Pairs of each half with two places inside of A, and with one: [lanes, halves, 2]."""
    row = np.arange(LANES)[:, None] // 4 + np.array([0, 8])  # of each lane
    first = 2 * (np.arange(LANES) % 4)[:, None, None]  # its first column of each eight
    half, eight = np.ogrid[:HALVES, :16]
    inside = np.clip(cols - (HALF_COLS * half + 8 * eight + first), 0, 2)  # places of a row's pairs
    counts = np.stack([(inside == 2).sum(2), (inside == 1).sum(2)], axis=2)
    return (row < rows).sum(1)[:, None, None] * counts
