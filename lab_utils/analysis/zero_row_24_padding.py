"""Zeros beside lone values of a stream of words, and what spares some of them.

Words hold two values of a group, or two lone ones. A lone value that is left over when two values
follow has a zero beside it; middle weights that are sent to level 1 leave fewer of them
(kernels/cpu/encode/zero_row_24_sent.h).
"""

import numpy as np

from lab_utils.analysis.zero_row_24 import LEVEL_ORDERS, NESTED_ORDERS, ORDERS

# Groups that may send a middle weight: those whose group of level 1 is all in the tile.
IN_TILE = 42 / 48


def padding_of_stream(density: np.ndarray, groups: float = ORDERS, size: int = 3) -> np.ndarray:
    """Expected zeros beside lone values of a stream of words, of so many groups of `size` columns.

    Lone values share words two by two; one that is left over when two values follow, or at the end,
    has a zero beside it. `odd`: the probability that one waits.
    """
    none, one = (1 - density) ** size, size * density * (1 - density) ** (size - 1)
    odd, zeros = 0 * density, 0 * density
    for _ in range(round(groups)):
        zeros = zeros + odd * (1 - none - one)
        odd = odd * none + (1 - odd) * one
    return zeros + odd


def sending(density: np.ndarray, groups: int = ORDERS) -> tuple[np.ndarray, np.ndarray]:
    """Zeros beside lone values of a stream with so many groups, and middle weights that it sends.

    These are sent beside those of full groups, where level 1 has a slot for them
    (kernels/cpu/encode/zero_row_24_sent.h). Expected numbers, both.
    """
    zeros, sent = 0 * density, 0 * density
    for _ in range(4):  # what is sent leaves fewer slots
        slot = IN_TILE * (1 - (density**3 + sent / groups) ** 2)
        zeros, sent = _sending(density, groups, slot)
    return zeros, sent


def _sending(density: np.ndarray, groups: int, slot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same where a group's column of level 1 has a slot with probability `slot`.

    A stream is in one of four states: does a lone value wait for a partner, and could one of those
    since two values stood together, or the middle one of these, be sent instead?
    """
    d, none = density, (1 - density) ** 3
    lone, lone_middle = 3 * d * (1 - d) ** 2, slot * d * (1 - d) ** 2
    two, two_middle = 1 - none - lone, slot * 2 * d**2 * (1 - d)
    even, even_spare, odd, odd_spare = 0 * d + 1, 0 * d, 0 * d, 0 * d
    zeros, sent = 0 * d, 0 * d
    for _ in range(groups):
        zeros = zeros + odd * (two - two_middle)
        sent = sent + odd * two_middle + odd_spare * two
        paired = even + even_spare
        even, even_spare, odd, odd_spare = (
            even * none + (paired + odd_spare) * (two - two_middle)
            + odd * (two + lone - lone_middle),
            even_spare * none + paired * two_middle + odd * lone_middle
            + odd_spare * (lone + two_middle),
            odd * none + even * (lone - lone_middle),
            odd_spare * none + even * lone_middle + even_spare * lone,
        )  # fmt: skip
    return zeros + odd, sent + odd_spare


def padding_of_nested(density: np.ndarray, filled: float = 1) -> np.ndarray:
    """Zeros of a nested stream, of which such a fraction has columns.

    They stand beside lone values, and behind those of level 1
    (kernels/cpu/encode/zero_row_24_nested.h).
    """
    groups, zeros, sent = round(filled * NESTED_ORDERS), 0 * density, 0 * density
    for _ in range(4):  # a group may send unless both others do
        sends = density**3 + sent / max(groups, 1)
        zeros, sent = _sending(density, groups, 1 - sends**2)
    sends = density**3 + sent / max(groups, 1)
    odd = 3 * sends * (1 - sends) ** 2  # of three groups one sends
    return zeros + (1 - (1 - 2 * odd) ** round(filled * LEVEL_ORDERS)) / 2


def density_of_level(density: np.ndarray) -> np.ndarray:
    """Of level 1 of streams that send."""
    return density**3 + sending(density)[1] / ORDERS


def padding_of_weight(density: float, levels: int) -> float:
    """Expected zeros beside lone values for each weight of large A, of streams of pairs."""
    if not levels:
        return padding_of_stream(density) / (3 * ORDERS)
    zeros, sent = sending(density)
    of_level = padding_of_stream(density**3 + sent / ORDERS) / 3  # a stream for three
    return (zeros + of_level) / (3 * ORDERS)
