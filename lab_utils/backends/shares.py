"""How many workers share A's tiles: a model of waves and bytes, fitted to times on an H200.

The tiles of A, row after row, are cut into equal shares (kernels/common/problem.cuh), so that every
worker takes equally long. More workers hide more latency and have fewer tiles each, but fill their
pipelines and add their sums more often.
"""

import functools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """What a kernel's workers cost; the unit is the time of one tile."""

    saturated: float  # workers that keep an SM busy; where there are more, they share its time
    columns: float  # of all workers of an SM, that do: so fewer workers where each has many
    fill: float  # the first tile of a worker takes so much longer
    sum: float  # a partial sum, written and added
    uneven: float  # by which the last of a wave of workers ends later; a second wave fills in
    density: float  # exponent: how `saturated`, meant for a density of one half, goes with density


# Fitted to data/measured/h200/shares.csv: `lab shares` measures how much slower the choice is than
# the best of all numbers that it tries.
MODELS = {
    "tiled_csl": Model(4, columns=144, fill=2, sum=2e-6, uneven=0.12, density=0.5),
    "tca_bme": Model(8, columns=144, fill=0.5, sum=3e-6, uneven=0.12, density=0),
}
MOST_WAVES, ENOUGH_BLOCKS = 3, 4  # waves follow each other well where an SM has so many blocks
WIDE, UNALIGNED = 64, 1.03  # columns from which it pays that workers meet at the same tiles of B


@dataclass(frozen=True)
class Tiles:
    """A's tiles, `rows` of `row_tiles`, for `columns` blocks of C, `block_n` columns each.

    `sums`: partial sums that a worker writes of a row of blocks; `density`: of A's non-zeros.
    """

    rows: int
    columns: int
    row_tiles: int
    sums: int
    block_n: int
    density: float

    @property
    def count(self) -> int:
        return self.rows * self.row_tiles

    def aligned(self, workers: int) -> bool:
        """Whether every row is cut in the same way."""
        return workers % self.rows == 0 or self.rows % workers == 0


@functools.cache  # every launch asks
def best_workers(tiles: Tiles, model: Model, sms: int, blocks_per_sm: int) -> tuple[int, str]:
    """The number of workers with the shortest time by the model, and why."""
    slots = min(tiles.count, max(1, sms * blocks_per_sm // tiles.columns))
    workers_of_sm = model.saturated * (2 * tiles.density) ** model.density
    saturated = min(max(1.0, workers_of_sm), model.columns / tiles.block_n)

    def time(workers: int) -> float:
        waves = max(1.0, workers / slots)
        on_an_sm = math.ceil(min(workers, slots) * tiles.columns / sms)
        slower = max(1.0, on_an_sm / saturated) * (1 + model.uneven / waves)
        if tiles.block_n >= WIDE and not tiles.aligned(workers):
            slower *= UNALIGNED
        sums = workers * tiles.sums if tiles.rows % workers else 0
        each = tiles.count / workers
        if waves == 1:  # the last one ends it; of several waves the mean counts
            each = math.ceil(each)
        return waves * (each + model.fill) * slower + model.sum * sums

    full = (sms * n // tiles.columns for n in range(1, blocks_per_sm))
    several = model.uneven and blocks_per_sm >= ENOUGH_BLOCKS
    waves = (slots * n for n in range(1, 1 + (MOST_WAVES if several else 1)))
    choices = {*full, *waves, *range(tiles.rows, slots, tiles.rows)}
    workers = min(sorted(n for n in choices if 0 < n <= tiles.count), key=time)
    why = (
        f"{tiles.rows} rows of blocks, {tiles.count} tiles: {tiles.count / workers:.1f} a worker; "
        f"{slots} at once"
    )
    return workers, why
