"""A slow reading of the drawing of zero-row 2:4, one value after another."""

from itertools import pairwise

import numpy as np

from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.formats import ZeroRow24


class SlowReading:
    """The weights of an encoding, found as the drawing in zero_row_24.h says, one by one."""

    def __init__(self, A: ZeroRow24):
        self.A, self.cols, self.sixes = A, A.slice_cols, A.streams == Streams.SIXES
        self.dense, self.of_chunk = np.zeros(A.shape, np.uint16), np.full(A.shape, -1)
        self.row_blocks = -(-A.shape[0] // 64)
        starts, first = (A.arrays[name].tolist() for name in ("chunk_start", "first_chunk"))
        for block, (low, high) in enumerate(pairwise(first)):
            for chunk in range(low, high):
                data = A.arrays["data"][16 * starts[chunk] : 16 * starts[chunk + 1]].numpy()
                self.read_chunk(block, chunk - low, data)

    def nibble(self, words: np.ndarray, lane: int, tile: int, n: int) -> int:
        """Both indices of group n of a lane's eight."""
        if self.sixes:
            g, (step, half) = lane // 4, divmod(lane % 4, 2)
            index = int(words[4 * (2 * g + half) + tile]) >> 4 * n & 15
            bits = int(words[64 + 2 * (2 * g + half) + tile // 2]) >> 4 * n + tile % 2
            for slot in range(2):
                if bits >> 2 * slot & 1 != step:
                    index |= 3 << 2 * slot
            return index
        if self.A.pairs:
            return int(words[4 * lane + tile]) >> 4 * n & 15
        codes = [int(word) >> 4 * (n // 2 + 4 * (n % 2)) & 15 for word in words[3 * lane :][:3]]
        high = sum((code >> 3) << bit for bit, code in enumerate(codes))
        return (None, 4, 8, 9, 12, 13, 14, 15)[high if tile == 3 else codes[tile] & 7]

    def read_nested(self, block: int, nth: int, data: np.ndarray) -> None:
        """A chunk of 64 x 72 that has its level 1 inside: zero_row_24_nested.h."""
        of_slice, row_block = divmod(block, self.row_blocks)
        cols = min(self.cols, self.A.shape[1] - of_slice * self.cols)
        halves, words = data.view(np.uint16), data.view(np.uint32)
        extra, starts, lists = nth >= -(-cols // 72), halves[384:], halves[416:]
        size = sum(int(starts[tile]) >> 14 << 2 * tile for tile in range(4))
        assert 32 * (28 + size) == data.size
        sending = {0: 14, 1: 15, 2: 12, 5: 11, 6: 8, 10: 3}  # codes, and their nibbles of metadata
        for tile, g in np.ndindex(4, 8):
            at, found, sent = int(starts[4 * g + tile]) & 0x3FFF, [], {}
            for step, half, row, t in np.ndindex(3, 2, 2, 4):
                lane = 4 * g + 2 * step + half if step < 2 else 32 + 2 * g + half
                planes = words[4 * lane :]
                code = sum((int(planes[i]) >> 4 * (4 * row + t) + tile & 1) << i for i in range(4))
                group = row, step, 4 * half + t
                if code in sending:
                    sent.setdefault((half, row, t), []).append(group)
                    code = sending[code]
                slots = enumerate((code & 3, code >> 2))
                found += [(*group, index, at + 2 * slot) for slot, index in slots if index < 3]
                at += 4 * (code >> 2 != 3)
            level = [group for _, all_of in sorted(sent.items()) for group in ends(all_of)]
            found += [(*group, 1, at + 2 * i) for i, group in enumerate(level)]
            for row, step, j, index, begin in found:
                column = 72 * nth + 18 * (j // 2) + 6 * step + 3 * (j % 2) + index
                if extra:
                    column = int(lists[96 * tile + 32 * step + 4 * j + index])
                place = (
                    64 * row_block + 16 * tile + g + 8 * row,
                    of_slice * self.cols + column,
                )
                assert self.dense[place] == 0 and halves[begin // 2] != 0
                self.dense[place], self.of_chunk[place] = halves[begin // 2], nth

    def read_chunk(self, block: int, nth: int, data: np.ndarray) -> None:
        if self.A.streams == Streams.NESTED:
            return self.read_nested(block, nth, data)
        of_slice, row_block = divmod(block, self.row_blocks)
        cols = min(self.cols, self.A.shape[1] - of_slice * self.cols)
        width = 96 if self.sixes else 48
        regular, of_level = -(-cols // width), -(-cols // 144) * self.A.levels
        pieces = -(-min(width, cols - width * nth) // 48) if nth < regular else 1
        header = 512 if self.A.streams == Streams.PAIRS else 384
        halves, words = data.view(np.uint16), data.view(np.uint32)
        starts, lists = halves[header // 2 :], halves[header // 2 + 32 :]
        size = sum(int(starts[tile]) >> 14 << 2 * tile for tile in range(4))
        assert 32 * size == data.size
        for tile, g in np.ndindex(4, 8):
            begin = int(starts[4 * g + tile]) & 0x3FFF
            codes = {
                (piece, step, half, row, t): self.nibble(
                    words[piece * 448 // 4 :], 4 * g + 2 * step + half, tile, 4 * row + t
                )
                for piece, step, half, row, t in np.ndindex(pieces, 2, 2, 2, 4)
            }
            at = begin
            for piece, step, half, row, t in codes:
                code = codes[piece, step, half, row, t]
                if self.sixes:  # words that end before it, whichever step their second value is of
                    mine = (piece, half, row, t)
                    before = [k for k in codes if (k[0], *k[2:]) < mine]
                    at = begin + 4 * sum(codes[k] >> 2 != 3 for k in before)
                group = 16 * piece + 8 * step + 4 * half + t
                for slot, index in enumerate((code & 3, code >> 2)):
                    if index == 3:
                        continue
                    column = width * nth + 3 * group + index
                    if nth >= regular:
                        column = 3 * (column - 48 * regular) + 1
                    if nth >= regular + of_level:
                        column = int(lists[64 * tile + 4 * group + index])
                    value = halves[at // 2 + (slot if self.A.pairs or code & 3 != 3 else 0)]
                    place = 64 * row_block + 16 * tile + g + 8 * row, of_slice * self.cols + column
                    assert self.dense[place] == 0 and value != 0
                    self.dense[place], self.of_chunk[place] = value, nth
                used = (code & 3 != 3) + (code >> 2 != 3)
                at += 4 * (code >> 2 != 3) if self.A.pairs else 2 * used


def ends(groups: list) -> list:
    """The first and the last one, of one that one."""
    return groups[:1] + groups[1:][-1:]
