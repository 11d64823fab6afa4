"""How many workers share A's tiles: a model of waves and sums, fitted to times on an H200.

The tiles of A, row after row, are cut into equal shares (kernels/common/problem.cuh), but for one
tile: the longest share and the SM with most tiles end a product. More workers hide more latency and
have fewer tiles each, but share an SM's time, and add their sums more often. The unit is the time
that a tile takes a worker which has an SM to itself, at a density of one half::

    values  1 - values + 2 · values · density
    busy    values · decoding + column · block_n
    tiles   hypot(values · tiles of the longest share, busy · tiles of an SM)
    sums    sum · N · segments + turn · workers
"""

import functools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """What a kernel's workers cost."""

    decoding: float  # of an SM's time, that a lone worker keeps busy with A's tiles
    column: float  # and with each column of a block of C, however few values a tile has
    values: float  # of a tile's time, that goes with its number of values
    sum: float  # of a segment, for each column: its partial sums are written and added
    turn: float  # of a worker, whatever N is: it waits for the one before it in adding up a row
    uneven: float  # by which the last of a wave of workers ends later; a second wave fills in


# Fitted to data/measured/h200/shares.csv: `lab shares` measures how much slower the choice is than
# the best of all numbers that it tries, and a test holds the rows of its last run to 5 %.
MODELS = {
    "tiled_csl": Model(decoding=0.41, column=0.003, values=0.82, sum=13e-5, turn=4.1e-3, uneven=0),
    "tca_bme": Model(
        decoding=0.46, column=0.0024, values=0.07, sum=19e-5, turn=1.1e-3, uneven=0.09
    ),
}
MOST_WAVES, ENOUGH_BLOCKS = 3, 4  # waves follow each other well where an SM has so many blocks
WIDE, UNALIGNED = 64, 1.03  # columns from which it pays that workers meet at the same tiles of B


@dataclass(frozen=True)
class Tiles:
    """A's tiles, `rows` of `row_tiles`, for N columns of C in blocks of `block_n`.

    `density`: of A's non-zeros.
    """

    rows: int
    row_tiles: int
    N: int
    block_n: int
    density: float

    @property
    def count(self) -> int:
        return self.rows * self.row_tiles

    @property
    def columns(self) -> int:
        """Blocks of C beside each other, each with workers of its own."""
        return -(-self.N // self.block_n)

    def aligned(self, workers: int) -> bool:
        """Whether every row is cut in the same way, or none at all."""
        if self.rows % workers == 0:
            return True
        return workers % self.rows == 0 and self.count % workers == 0

    def segments(self, workers: int) -> int:
        """Parts of rows that are added up: a row's end cuts a share, unless shares end with it."""
        if self.rows % workers == 0:
            return 0
        return workers if self.aligned(workers) else workers + self.rows


@functools.cache  # the matrices of a model have few shapes
def best_workers(tiles: Tiles, model: Model, sms: int, blocks_per_sm: int) -> tuple[int, str]:
    """The number of workers with the shortest time by the model, and why."""
    slots = min(tiles.count, max(1, sms * blocks_per_sm // tiles.columns))
    full = (sms * n // tiles.columns for n in range(1, blocks_per_sm))
    several = model.uneven and blocks_per_sm >= ENOUGH_BLOCKS
    waves = (slots * n for n in range(1, 1 + (MOST_WAVES if several else 1)))
    choices = {*full, *waves, *range(tiles.rows, slots, tiles.rows)}
    legal = sorted(n for n in choices if 0 < n <= tiles.count)
    workers = min(legal, key=lambda n: _time(tiles, model, n, slots, sms))
    why = (
        f"{tiles.rows} rows of blocks, {tiles.count} tiles: {tiles.count / workers:.1f} a worker; "
        f"{slots} at once"
    )
    return workers, why


def _time(tiles: Tiles, model: Model, workers: int, slots: int, sms: int) -> float:
    """Of a product by so many workers, of which `slots` run at once."""
    values = 1 - model.values + 2 * model.values * tiles.density
    busy = values * model.decoding + model.column * tiles.block_n
    of_a_worker, of_an_sm = _most_tiles(tiles, workers, slots, sms)
    time = math.hypot(values * of_a_worker, busy * of_an_sm)
    if tiles.block_n >= WIDE and not tiles.aligned(workers):
        time *= UNALIGNED
    segments = tiles.segments(workers)
    sums = model.sum * tiles.N * segments + (model.turn * workers if segments else 0)
    waves = max(1.0, workers / slots)
    return time * (1 + model.uneven / waves) + sums


def _most_tiles(tiles: Tiles, workers: int, slots: int, sms: int) -> tuple[float, float]:
    """Of a worker, and of all workers of an SM, one after the other where they come in waves.

    The first shares are longer by a tile: they go to as many SMs as there are.
    """
    on_an_sm = math.ceil(min(workers, slots) * tiles.columns / sms)
    if workers > slots:  # an SM that is done with a worker gets the next: the mean counts
        return tiles.count / slots, tiles.count / slots * on_an_sm
    each, longer = divmod(tiles.count, workers)
    longer_on_an_sm = min(on_an_sm, math.ceil(longer * tiles.columns / sms))
    return each + (longer > 0), each * on_an_sm + longer_on_an_sm
