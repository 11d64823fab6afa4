"""Codes of pairs, read and written slowly, by the rules of their drawing (coded_strips.h)."""

import numpy as np
from bank_strips_slow import SlowFormat

from lab_utils.formats import CodedStrips

CODES_OF_SECOND, BANKS, LINES = 512, 768, 768
# By code: which half of the register stands in which half of a word, and whether that begins.
FIRST, SECOND = 0, 1
MEANINGS = {
    0: ({}, False),
    3: ({SECOND: SECOND}, False),
    4: ({FIRST: FIRST}, True),
    5: ({SECOND: FIRST}, True),
    6: ({FIRST: FIRST, SECOND: SECOND}, True),
    7: ({FIRST: SECOND}, False),
}


def at(lane: int, half: int, k: int) -> int:
    """Where code word k is."""
    lane_words = [16 * lane + 4 * n for n in range(4)]
    lane_words += [CODES_OF_SECOND + 8 * lane + 4 * n for n in range(2)]
    return lane_words[3 * half + k]


def nibble_of(pair: int) -> list[tuple[int, int]]:
    """Code word and bit of each of the three bits of a pair's code, the lowest first."""
    eight, n = divmod(pair, 8)
    return [(eight, 4 * n + bit) if eight < 3 else (bit, 4 * n + 3) for bit in range(3)]


def codes_of(weights: list[int]) -> tuple[list[int], list[list[int]]]:
    """The code of each pair, and words of one or two values."""
    codes, words, room = [], [], False
    for first, second in zip(weights[::2], weights[1::2], strict=True):
        values = [value for value in (first, second) if value]
        if len(values) == 1 and room:
            words[-1] += values
            codes.append(7 if first else 3)
            room = False
        elif values:
            words.append(values)
            codes.append(6 if len(values) == 2 else 4 if first else 5)
            room = len(values) == 1
        else:
            codes.append(0)
    return codes, words


def write(front: np.ndarray, lane: int, half: int, weights: list[int]) -> list[int]:
    codes, words = codes_of(weights)
    for pair, code in enumerate(codes):
        for i, (k, bit) in enumerate(nibble_of(pair)):
            front.view(np.uint32)[at(lane, half, k) // 4] |= np.uint32((code >> i & 1) << bit)
    return [value for word in words for value in (*word, 0)[:2]]


def read(data: np.ndarray, lane: int, half: int) -> tuple[list[tuple[int, int]], int]:
    code_words = [int(data[at(lane, half, k) :][:4].view(np.uint32)[0]) for k in range(3)]
    found, words = [], 0
    for pair in range(32):
        bits = [code_words[k] >> bit & 1 for k, bit in nibble_of(pair)]
        halves, begins = MEANINGS[bits[0] + 2 * bits[1] + 4 * bits[2]]
        words += begins
        found += [(2 * pair + h, 2 * (words - 1) + position) for h, position in halves.items()]
    return found, 2 * words


SLOW = SlowFormat(CodedStrips, BANKS, LINES, lambda bank: 2 if bank < 8 else 0, write, read)
