"""How many workers share A's tiles: a model of waves and sums, fitted to times on an H200.

The tiles of A, row after row, are cut into equal shares (kernels/common/problem.cuh), so that every
worker takes equally long. More workers hide more latency and have fewer tiles each, but share an
SM's time, and add their sums more often. The unit is the time that a tile takes a worker which has
an SM to itself, at a density of one half::

    tile   (1 - values + 2 · values · density) · hypot(1, workers of an SM · busy)
    busy   decoding + column · block_n
    sums   sum · (N + ADDED) · workers
"""

import functools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """What a kernel's workers cost."""

    decoding: float  # of an SM's time, that a lone worker keeps busy with A's tiles
    column: float  # and with each column of a block of C
    values: float  # of a tile's time, that goes with its number of values
    sum: float  # of a worker, for each column: its partial sums are written and added
    uneven: float  # by which the last of a wave of workers ends later; a second wave fills in


# Fitted to data/measured/h200/shares.csv: `lab shares` measures how much slower the choice is than
# the best of all numbers that it tries, and a test holds the rows of its last run to 5 %.
MODELS = {
    "tiled_csl": Model(decoding=0.06, column=0.010, values=0.9, sum=12.5e-5, uneven=0),
    "tca_bme": Model(decoding=0.30, column=0.006, values=0, sum=8e-5, uneven=0.15),
}
ADDED = 48  # columns whose sums take as long as a worker's turn in adding up a row
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
        """Whether every row is cut in the same way."""
        return workers % self.rows == 0 or self.rows % workers == 0


@functools.cache  # every launch asks
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
    waves = max(1.0, workers / slots)
    each = tiles.count / workers
    if waves == 1:  # the last one ends it; of several waves the mean counts
        each = math.ceil(each)
    on_an_sm = math.ceil(min(workers, slots) * tiles.columns / sms)
    busy = model.decoding + model.column * tiles.block_n
    tile = (1 - model.values + 2 * model.values * tiles.density) * math.hypot(1, on_an_sm * busy)
    if tiles.block_n >= WIDE and not tiles.aligned(workers):
        tile *= UNALIGNED
    sums = workers * (tiles.N + ADDED) if tiles.rows % workers else 0
    return waves * each * tile * (1 + model.uneven / waves) + model.sum * sums
