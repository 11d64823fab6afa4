"""Bitmaps and values for each lane, read and written slowly, by the rules of their drawing."""

from itertools import product

import numpy as np
import torch

from lab_utils.formats import BitmapStrips

BANKS, ZEROS, LINES = 512, 544, 640
HALVES = (0, 1), (2, 3)  # words of a lane


def bits_of(dense: torch.Tensor) -> np.ndarray:
    return dense.contiguous().view(torch.int16).numpy().view(np.uint16)


def chunk_bytes(A: BitmapStrips, chunk: int) -> np.ndarray:
    starts = A.arrays["chunk_start"].tolist()
    return A.arrays["data"][16 * starts[chunk] : 16 * starts[chunk + 1]].numpy()


def places(lane: int, words: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Row, column, word and bit of a lane's places in these words, in the order of values."""
    g, t = divmod(lane, 4)
    found = []
    for w, kk, c8, r, h in product(words, range(4), (0, 1), (0, 1), (0, 1)):
        i = 4 * kk + 2 * c8 + r
        column = 64 * w + 16 * kk + 8 * c8 + 2 * t + h
        found.append((g + 8 * r, column, w, 16 * (i % 2) + 8 * h + 7 - i // 2))
    return found


def value_at(bank: int, position: int) -> int:
    return LINES + 128 * (position // 2) + 4 * bank + 2 * (position % 2)


def slow_chunk(weights: np.ndarray) -> np.ndarray:
    """The bytes of a chunk of `weights` [16, 256] (bits)."""
    bitmap = np.zeros((32, 4), np.uint32)
    values = [[[], []] for _ in range(32)]  # of a lane, of a half
    for lane, half in product(range(32), (0, 1)):
        for row, column, word, bit in places(lane, HALVES[half]):
            if weights[row, column]:
                bitmap[lane, word] |= np.uint32(1 << bit)
                values[lane][half].append(int(weights[row, column]))
    lanes = sorted(range(32), key=lambda lane: -len(values[lane][1]))
    banks = dict(zip(lanes, sorted(range(32), key=lambda lane: len(values[lane][0])), strict=True))
    there = [list(values[bank][0]) for bank in range(32)]
    for lane, bank in banks.items():
        there[bank] += values[lane][1]
    lines = -(-max(len(bank) for bank in there) // 2)
    data = np.zeros(LINES + 128 * lines, np.uint8)
    data[:BANKS] = bitmap.ravel().view(np.uint8)
    data[BANKS:ZEROS] = [banks[lane] for lane in range(32)]
    for bank, position in ((b, p) for b in range(32) for p in range(len(there[b]))):
        data.view(np.uint16)[value_at(bank, position) // 2] = there[bank][position]
    return data


def slow_encoding(dense: torch.Tensor) -> list[np.ndarray]:
    """The bytes of all chunks."""
    (M, K), bits = dense.shape, bits_of(dense)
    padded = np.pad(bits, ((0, -M % 64), (0, -K % 256)))
    rows, columns = padded.shape
    return [
        slow_chunk(padded[row : row + 16, column : column + 256])
        for row in range(0, rows, 16)
        for column in range(0, columns, 256)
    ]


def slow_reading(data: np.ndarray) -> np.ndarray:
    """The weights [16, 256] (bits) of a chunk, whatever its permutation of banks."""
    weights, banks = np.zeros((16, 256), np.uint16), data[BANKS:ZEROS].tolist()
    bitmap = data[:BANKS].view(np.uint32).reshape(32, 4).tolist()
    count = [[sum(words[w].bit_count() for w in half) for half in HALVES] for words in bitmap]
    for lane, half in product(range(32), (0, 1)):
        bank = banks[lane] if half else lane
        position = count[bank][0] if half else 0
        for row, column, word, bit in places(lane, HALVES[half]):
            if bitmap[lane][word] >> bit & 1:
                weights[row, column] = data.view(np.uint16)[value_at(bank, position) // 2]
                position += 1
    return weights
