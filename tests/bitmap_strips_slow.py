"""Bitmaps of lanes, read and written slowly, by the rules of their drawing (bitmap_strips.h)."""

import numpy as np
from bank_strips_slow import SlowFormat

from lab_utils.formats import BitmapStrips

BANKS, ZEROS, LINES = 512, 544, 640


def bit_of(half: int, order: int) -> tuple[int, int]:
    """Word and bit of a place."""
    i, h = order // 2 % 16, order % 2
    return 2 * half + order // 32, 16 * (i % 2) + 8 * h + 7 - i // 2


def write(front: np.ndarray, lane: int, half: int, weights: list[int]) -> list[int]:
    for order in range(64):
        word, bit = bit_of(half, order)
        if weights[order]:
            front.view(np.uint32)[4 * lane + word] |= np.uint32(1 << bit)
    return [weight for weight in weights if weight]


def read(data: np.ndarray, lane: int, half: int) -> tuple[list[tuple[int, int]], int]:
    bitmaps = data[:BANKS].view(np.uint32)[4 * lane : 4 * lane + 4].tolist()
    places = ((order, *bit_of(half, order)) for order in range(64))
    orders = [order for order, word, bit in places if bitmaps[word] >> bit & 1]
    return [(order, position) for position, order in enumerate(orders)], len(orders)


SLOW = SlowFormat(BitmapStrips, BANKS, LINES, lambda bank: 0, write, read)
