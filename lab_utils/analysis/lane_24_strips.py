"""2:4 in strips of 16 rows, words for each lane, in numbers: the bytes of a random mask.

How many lines a chunk has depends on all of its lanes, and has no closed form: chunks are simulated
here, group by group, and banks and lines are chosen as the encoder chooses them.
(kernels/cpu/encode/lane_24_strips.h: the layout.) Draws are the same at all densities, so that
curves are smooth.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lab_utils.analysis.zero_row_24 import OFFSET_BYTES, TILE_ROWS
from lab_utils.analysis.zero_row_24_expected import cut
from lab_utils.analysis.zero_row_24_strips import strips

COLS = 256  # of a chunk: 64 groups of four in a row
LANES, ORDERS, GROUP, PLACES = 32, 32, 4, 8  # ORDERS: groups of a lane; PLACES: entries of a step
ORDERS_OF_STEP = 16  # of wgmma.sp
METADATA_BYTES, HALVES_BYTES, HEADER_BYTES, GEOMETRY_BYTES = 512, 256, 40, 4
LINE_BYTES, STEP_BYTES, NEAR_STEPS, FEWER_LINES = 128, 40, 12, 13
FOUR, FOUR_BYTES = 4, 32  # near steps that are multiplied at once, and their metadata
COST_OF_STEP, COST_OF_FOUR, COST_OF_FAR = 256, 640, 768  # in the encoder's choice, beside bytes
WIDE_BYTES, COST_OF_NARROW = 4096, 2048  # of a chunk with more before its far steps
SAMPLES = 128  # chunks: their mean bytes are within 1.5 % of encodings


def rounds(K: int) -> int:
    """Chunks of a strip."""
    return -(-K // COLS)


@dataclass(frozen=True)
class Choice:
    """Lines and steps of entries of chunks, int arrays of one shape."""

    lines: np.ndarray
    steps: np.ndarray

    @property
    def nbytes(self) -> np.ndarray:
        return self.copied + _whole_lines(STEP_BYTES * self.far)

    @property
    def copied(self) -> np.ndarray:
        """Bytes before far steps."""
        near = np.minimum(self.steps, NEAR_STEPS)
        entries = STEP_BYTES * near + FOUR_BYTES * self.fours
        front = _whole_lines(HEADER_BYTES + entries) + LINE_BYTES * self.lines
        return METADATA_BYTES + HALVES_BYTES + front

    @property
    def fours(self) -> np.ndarray:
        """Of near steps."""
        return np.minimum(self.steps, NEAR_STEPS) // FOUR

    @property
    def far(self) -> np.ndarray:
        """Steps behind the lines."""
        return np.maximum(self.steps - NEAR_STEPS, 0)

    @property
    def cost(self) -> np.ndarray:
        narrow = COST_OF_NARROW * (self.copied > WIDE_BYTES)
        single = COST_OF_STEP * (self.steps - FOUR * self.fours)
        return self.nbytes + single + COST_OF_FOUR * self.fours + COST_OF_FAR * self.far + narrow


def steps_for(entries: np.ndarray) -> np.ndarray:
    """Steps for so many entries: near ones as they are, or one more to fill a four."""
    steps = -(-entries // PLACES)
    return steps + ((steps < NEAR_STEPS) & (steps % FOUR == FOUR - 1))


def choose(held: np.ndarray, left: np.ndarray) -> Choice:
    """What the encoder chooses for chunks.

    `held` [chunks, 32]: weights in the nth words of all banks together, 0 where no bank has so many
    words; `left` [chunks]: weights that groups leave out.
    """
    lines = np.arange(ORDERS, -1, -1)  # the most first, which is chosen among equals
    late = np.zeros((len(held), ORDERS + 1), np.int64)
    late[:, 1:] = held[:, ::-1].cumsum(1)  # weights in words beyond so many lines
    found = Choice(lines, steps_for(late + left[:, None]))
    most = (held > 0).sum(1, keepdims=True)
    allowed = (lines <= most) & (lines >= most - FEWER_LINES)
    best = np.where(allowed, found.cost, np.inf).argmin(1)
    return Choice(lines[best], found.steps[np.arange(len(held)), best])


def parts(M: int, K: int, density: np.ndarray) -> dict[str, np.ndarray]:
    """Expected bytes of the encoding, by purpose.

    "values": lines, and values of entries; "indices": metadata, which halves groups have, and all
    else of entries, with paddings; "offsets": headers and tables.
    """
    densities = np.ravel(density)
    sums = np.zeros((2, densities.size))
    for rows, cols, count in chunks(M, K):
        for i, d in enumerate(densities):
            sums[:, i] += count * np.array(_mean_bytes(rows, cols, float(d) if rows else 0.0))
    values, total = sums
    headers = HEADER_BYTES * strips(M) * rounds(K)
    tables = OFFSET_BYTES * (strips(M) * rounds(K) + 1) + GEOMETRY_BYTES
    found = {
        "values": values,
        "indices": total - values - headers,
        "offsets": headers + tables + 0 * total,
    }
    return {name: part.reshape(np.shape(density)) for name, part in found.items()}


@functools.lru_cache(1 << 12)
def _mean_bytes(rows: int, cols: int, density: float) -> tuple[float, float]:
    """Of chunks of rows x cols: bytes of lines and values of entries; all bytes."""
    chosen = choose(*_simulated(rows, cols, density))
    values = LINE_BYTES * chosen.lines + 2 * PLACES * chosen.steps
    return float(values.mean()), float(chosen.nbytes.mean())


def _whole_lines(nbytes: np.ndarray) -> np.ndarray:
    return -(-nbytes // LINE_BYTES) * LINE_BYTES


def chunks(M: int, K: int) -> Iterator[tuple[int, int, int]]:
    """Rows, columns and number of chunks."""
    below = strips(M) - -(-M // TILE_ROWS)  # strips that have no rows of A
    for rows, across in (*cut(M, TILE_ROWS), (0, below)):
        for cols, along in cut(K, COLS) if across else ():
            yield rows, cols, across * along


def _simulated(rows: int, cols: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    """`held` and `left` of chunks of rows x cols, as `choose` takes them."""
    below = _binomial_cdfs(density)[_widths(rows, cols)]  # [lanes, orders, 4]
    weights = sum((_draws() >= below[..., n]).view(np.uint8) for n in range(GROUP))
    kept = np.minimum(weights, 2)
    has = kept > 0
    lines = lines_of_words(begins_word(kept))
    samples = np.arange(SAMPLES)[:, None, None]
    held = np.bincount((ORDERS * samples + lines)[has], kept[has], SAMPLES * ORDERS)
    left = (weights - kept).sum((1, 2), dtype=np.int64)
    return held.astype(np.int64).reshape(SAMPLES, ORDERS), left


def begins_word(kept: np.ndarray) -> np.ndarray:
    """Which groups have the first half of a word, [chunks, lanes, orders].

    `kept`: weights of a group that have a slot. Every second of neighbours with one shares a word.
    """
    begins, open_ = kept > 0, np.zeros(kept.shape[:2], bool)  # open_: a word has room
    for order in range(ORDERS):
        alone = kept[..., order] == 1
        open_ &= order != ORDERS_OF_STEP
        begins[..., order] &= ~(alone & open_)
        open_ = np.where(kept[..., order] == 0, open_, alone & ~open_)
    return begins


def lines_of_words(begins: np.ndarray) -> np.ndarray:
    """The line of each group's word, [chunks, lanes, orders]; `begins`: groups that begin one."""
    first, second = begins[..., :ORDERS_OF_STEP], begins[..., ORDERS_OF_STEP:]
    words, odd = first.sum(2), 2 * ORDERS * (np.arange(LANES) // 4 % 2)  # lanes of odd g come last
    above, below = (words + odd).argsort(1, "stable"), (odd - second.sum(2)).argsort(1, "stable")
    start = np.zeros_like(words)  # of a lane's words of step 1
    np.put_along_axis(start, below, np.take_along_axis(words, above, 1), 1)
    nth = np.concatenate([first.cumsum(2), second.cumsum(2) + start[..., None]], 2)
    return nth.astype(np.int64) - 1


@functools.cache
def _draws() -> np.ndarray:
    """Uniform in [0, 1), [SAMPLES, lanes, orders]: one in each of SAMPLES parts, for each group."""
    rng = np.random.default_rng(0)
    shape = (SAMPLES, LANES, ORDERS)
    part = rng.permuted(np.broadcast_to(np.arange(SAMPLES)[:, None, None], shape), axis=0)
    return (part + rng.random(shape)) / SAMPLES


def _binomial_cdfs(p: float) -> np.ndarray:
    """P(at most k of n), [n, k], n = 0 to 4, k = 0 to 3."""
    below = np.ones((GROUP + 1, GROUP))
    for n in range(GROUP + 1):
        chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n)]
        below[n, :n] = np.cumsum(chances)
    return below


def _widths(rows: int, cols: int) -> np.ndarray:
    """Columns of each lane's groups that are inside of A, 0 to 4: [lanes, orders]."""
    lane, order = np.ogrid[:LANES, :ORDERS]
    step, tile, half, row = order >> 4, order >> 2 & 3, order >> 1 & 1, lane // 4 + 8 * (order & 1)
    group = 8 * (2 * tile + step) + 4 * half + lane % 4
    return np.where(row < rows, np.clip(cols - GROUP * group, 0, GROUP), 0)
