"""2:4 in strips, words for each lane, read slowly, by the rules of its drawing."""

from itertools import product

import numpy as np
import torch

from lab_utils.formats import Lane24Strips

HALVES, HEADER, BANKS, STEPS = 512, 768, 776, 808
# Nibbles of a lone weight in a word's first half and in its second one, by its column.
LONE = (0b0000, 0b0101, 0b1010, 0b0011), (0b0001, 0b0110, 0b1011, 0b1111)


def bits_of(dense: torch.Tensor) -> np.ndarray:
    return dense.contiguous().view(torch.int16).numpy().view(np.uint16)


def chunk_bytes(A: Lane24Strips, chunk: int) -> np.ndarray:
    starts = A.arrays["chunk_start"].tolist()
    return A.arrays["data"][16 * starts[chunk] : 16 * starts[chunk + 1]].numpy()


def stated_steps(stated: int) -> tuple[int, int, int]:
    """Near steps, how many fours these have, far steps."""
    fours = stated >> 4 & 3
    return (stated & 15) + 4 * fours, fours, stated >> 6


def steps_of(A: Lane24Strips, chunk: int) -> tuple[int, int, int]:
    """What a chunk states, as `stated_steps`."""
    return stated_steps(int(chunk_bytes(A, chunk)[HEADER + 2 : HEADER + 4].view(np.uint16)[0]))


def lines_and_steps(A: Lane24Strips, chunk: int) -> tuple[int, int]:
    data = chunk_bytes(A, chunk)
    lines_at = int(data[HEADER : HEADER + 2].view(np.uint16)[0])
    near, _, far = steps_of(A, chunk)
    return (data.size - lines_at) // 128 - -(-40 * far // 128), near + far


def halves_of(halves: np.ndarray, lane: int, order: int) -> list[int]:
    """Halves of a word that a group has, 0 and 1; `halves`: u32 [64] of a chunk."""
    step, high, r = order // 16, order // 2 % 8, order % 2
    stored = int(halves[32 * step + lane])
    return [h for h in (0, 1) if stored >> (8 * (2 * r + h) + 7 - high) & 1]


def words_of_banks(A: Lane24Strips, chunk: int) -> dict[int, int]:
    data = chunk_bytes(A, chunk)
    halves = data[HALVES:HEADER].view(np.uint32)
    begun = [[0 in halves_of(halves, lane, i) for i in range(32)] for lane in range(32)]
    banks = data[BANKS : BANKS + 32].tolist()
    return {bank: sum(begun[bank][:16]) + sum(begun[i][16:]) for i, bank in enumerate(banks)}


# --- an element, read where the drawing puts it


class SlowReading:
    """The weights of an encoding, found as lane_24_strips.h draws them, one by one."""

    def __init__(self, A: Lane24Strips):
        self.A, self.entries = A, 0
        self.dense = np.zeros((16 * A.strips, 256 * A.rounds), np.uint16)
        self.data = A.arrays["data"].numpy()
        starts = A.arrays["chunk_start"].tolist()
        for chunk in range(A.strips * A.rounds):
            strip, nth = divmod(chunk, A.rounds)
            self.row, self.column = 16 * strip, 256 * nth
            self.read_chunk(16 * starts[chunk], 16 * starts[chunk + 1])

    def put(self, row: int, column: int, value: int) -> None:
        at = self.row + row, self.column + column
        assert value != 0 and self.dense[at] == 0
        assert at[0] < self.A.shape[0] and at[1] < self.A.shape[1]
        self.dense[at] = value

    def read_chunk(self, begin: int, end: int) -> None:
        words = self.data[begin:end].view(np.uint32)
        lines_at = int(words[192]) & 0xFFFF
        near, fours, far = stated_steps(int(words[192]) >> 16)
        assert begin % 128 == end % 128 == lines_at % 128 == 0
        lines, banks = [0] * 32, self.data[begin + BANKS : begin + BANKS + 32].tolist()
        assert sorted(banks) == list(range(32))
        used: list[int] = []  # halves of the lane's last word in the step
        for lane, order in [*product(range(32), range(16)), *product(range(32), range(16, 32))]:
            has = halves_of(words[128:192], lane, order)
            used = [] if order % 16 == 0 else used
            assert has != [1] or used == [0]  # of a word that has been begun, and has room
            used = has if 0 in has else used + has
            bank = banks[lane] if order >= 16 else lane
            lines[bank] += 0 in has
            at = 2 * ((lines_at + 128 * (lines[bank] - 1)) // 4 + bank)
            halves = {h: int(words.view(np.uint16)[at + h]) for h in has}
            self.read_group(words, lane, order, halves)
        self.first, rows = -1, []  # first: column of the first entry
        for step in range(near + far):
            at = begin + STEPS + 40 * step
            if step >= near:
                at = 16 * int(words[193]) + 40 * (step - near)
            pairs = self.data[at : at + 32].view(np.uint16).reshape(4, 2, 2)
            values, bits = pairs.transpose(1, 0, 2).reshape(2, 8).tolist()
            self.read_step(values + bits + self.data[at + 32 : at + 40].tolist())
            rows += bits
        for four in range(fours):
            at = begin + STEPS + 40 * near + 32 * four
            first = 8 * (near - 4 * (fours - four))
            read_four(rows[first : first + 32], self.data[at : at + 32].view(np.uint32).tolist())

    def read_group(self, words: np.ndarray, lane: int, order: int, halves: dict[int, int]) -> None:
        g, t = divmod(lane, 4)
        step, tile, half, r = order // 16, order // 4 % 4, order // 2 % 2, order % 2
        metadata = int(words[4 * (4 * g + 2 * step + half) + tile])
        nibble = metadata >> (16 * r + 4 * t) & 15
        group = (2 * tile + step) * 8 + 4 * half + t
        for h, value in halves.items():
            self.put(g + 8 * r, 4 * group + (nibble >> 2 * h & 3), value)
            assert len(halves) == 2 or nibble in LONE[h]
        assert halves or nibble == 2

    def read_step(self, halves: list[int]) -> None:
        assert halves[8] or self.first >= 0  # the first step has entries
        self.first = halves[16] if self.first < 0 else self.first
        unused = halves[16] if halves[8] else self.first  # column of entries that are not in use
        for value, row, column in zip(halves[:8], halves[8:16], halves[16:], strict=True):
            if row:
                self.put(row.bit_length() - 1, column, value)
                self.entries += 1
            else:
                assert value == 0 and column == unused


def read_four(rows: list[int], metadata: list[int]) -> None:
    """Raise unless `metadata` choose, for each row, what `rows` [4 steps, 8 places] have of it."""
    for row, q in product(range(16), range(8)):
        word = metadata[row % 8] >> 16 * (row // 8) + 4 * (q % 4) + q // 4
        first = 8 * (q // 2) + 4 * (q % 2)
        columns = [first + place for place in (0, 2, 1, 3)]  # of A, four of a group
        chosen = {columns[word & 1], columns[2 + (word >> 2 & 1)]}
        assert chosen >= {i for i in columns if rows[i] == 1 << row}
