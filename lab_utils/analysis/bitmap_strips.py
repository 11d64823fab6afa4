"""Bitmaps and streams of values for each lane, in strips of 16 rows, in numbers: the bytes of a
random mask (kernels/cpu/encode/bitmap_strips.h: the layout).
"""

import functools
import math

import numpy as np

from lab_utils.analysis import bank_strips
from lab_utils.analysis.lane_24_strips import LANES

LINES_AT = 640  # bitmaps, banks, and their padding
VALUES_IN_LINE = 2  # of a bank


def _cdf(pairs: int, single: int, p: float) -> np.ndarray:
    """Of values: P(at most k of n), k = 0 to n - 1."""
    n = 2 * pairs + single
    return np.cumsum([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n)])


LAYOUT = bank_strips.Layout(LINES_AT, LINES_AT, VALUES_IN_LINE, (0,) * LANES, _cdf)
parts = functools.partial(bank_strips.parts, LAYOUT)
