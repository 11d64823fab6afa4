"""Codes of pairs and streams of words for each lane, in strips of 16 rows, in numbers: the bytes of
a random mask (kernels/cpu/encode/coded_strips.h: the layout).
"""

import functools

import numpy as np

from lab_utils.analysis import bank_strips
from lab_utils.analysis.lane_24_strips import LANES

LINES_AT, BANKS_BYTES = 768, 32  # codes; which banks second halves have, in the first line
OF_BANKS = BANKS_BYTES // 4  # words of that line
BEGIN = (1,) * OF_BANKS + (0,) * (LANES - OF_BANKS)  # by bank: whether it has those


def _cdf(pairs: int, single: int, p: float) -> np.ndarray:
    """Of words: P(at most k), k = 0 to pairs + single - 1.

    A pair with both weights begins a word, one with a single weight a word that has room for that
    of another one, up to the next pair with both. Pairs with one place come last in a half.
    """
    chances = np.zeros((pairs + single + 1, 2))  # of so many words, and of room in the last one
    chances[0, 0] = 1
    for pair in range(pairs + single):
        one, both = (2 * p * (1 - p), p * p) if pair < pairs else (p, 0.0)
        full, room = chances.T
        after = (1 - one - both) * chances
        after[:, 0] += one * room
        after[1:, 0] += both * (full + room)[:-1]
        after[1:, 1] += one * full[:-1]
        chances = after
    return chances.sum(1).cumsum()[:-1]


LAYOUT = bank_strips.Layout(LINES_AT + BANKS_BYTES, LINES_AT, 1, BEGIN, _cdf)
parts = functools.partial(bank_strips.parts, LAYOUT)
