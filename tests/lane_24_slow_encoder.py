"""2:4 in strips, words for each lane: all bytes, written slowly, by the rules of its drawing."""

from dataclasses import dataclass, field
from itertools import product, zip_longest

import numpy as np
import torch
from lane_24_slow import BANKS, LONE, STEPS, bits_of


def split(group: list[int], entries: list[int]) -> tuple[list[int], list[int]]:
    """Columns of a group that stay, and those that it leaves out.

    `entries`: how many there are of each column so far; those of this group are added.
    """
    columns = [c for c in range(4) if group[c]]
    left = sorted(columns, key=lambda c: entries[c])[: max(len(columns) - 2, 0)]
    for c in left:
        entries[c] += 1
    return [c for c in columns if c not in left], sorted(left)


@dataclass
class SlowWord:
    """A word of a lane: its halves, and the groups that have them."""

    lane: int
    values: list[int] = field(default_factory=list)
    groups: list[tuple[int, list[int], int]] = field(default_factory=list)  # order, halves, nibble
    weights: list[tuple] = field(default_factory=list)  # what entries would be

    def take(self, order: int, row: int, columns: dict[int, int]) -> None:
        """`columns`: of the chunk, and what stands there."""
        halves = [len(self.values) + i for i in range(len(columns))]
        nibble = 0
        for h, (column, value) in zip(halves, columns.items(), strict=True):
            nibble |= column % 4 << 2 * h
            self.values.append(value)
            self.weights.append((self.lane, order, column, value, row))
        if len(columns) == 1:
            nibble = LONE[halves[0]][next(iter(columns)) % 4]
        self.groups.append((order, halves, nibble))


class SlowChunk:
    """A chunk of `weights` [16, 256] (bits): what stands in words, what may, and its bytes."""

    def __init__(self, weights: np.ndarray):
        self.fill(weights, set())
        self.fill(weights, self.late(self.lines()))

    def fill(self, weights: np.ndarray, late: set[tuple[int, int]]) -> None:
        """`late`: (lane, order) of groups whose words find no line; all of these are entries."""
        words = [[[], []] for _ in range(32)]  # of a lane, of a step of wgmma.sp
        self.left = []  # (lane, order, column, value, row), whatever the number of lines
        entries = [0] * 4, [0] * 4  # of lanes with an even t, and with an odd one
        for (lane, order), c in product(late, range(4)):
            row, first = self.place(lane, order)
            entries[lane % 2][c] += bool(weights[row, first + c])
        for lane in range(32):
            for order in range(32):
                row, first = self.place(lane, order)
                group = weights[row, first : first + 4].tolist()
                counts = [0] * 4 if (lane, order) in late else entries[lane % 2]
                kept, left = split(group, counts)
                self.left += [(lane, order, first + c, group[c], row) for c in left]
                here = words[lane][order // 16]
                if kept:
                    if len(kept) == 2 or not here or len(here[-1].values) == 2:
                        here.append(SlowWord(lane))
                    here[-1].take(order, row, {first + c: group[c] for c in kept})
        above = sorted(range(32), key=lambda lane: (lane // 4 % 2, len(words[lane][0])))
        below = sorted(range(32), key=lambda lane: (lane // 4 % 2, -len(words[lane][1])))
        self.bank = dict(zip(below, above, strict=True))  # of a lane's words of step 1
        self.words = [words[lane][0] for lane in range(32)]  # of a bank
        for lane, bank in self.bank.items():
            self.words[bank] = self.words[bank] + words[lane][1]

    @staticmethod
    def place(lane: int, order: int) -> tuple[int, int]:
        """Row and first column of a lane's group."""
        step, tile, half, r = order // 16, order // 4 % 4, order // 2 % 2, order % 2
        return lane // 4 + 8 * r, 4 * ((2 * tile + step) * 8 + 4 * half + lane % 4)

    def late(self, lines: int) -> set[tuple[int, int]]:
        """Lanes and orders of groups whose words find no line."""
        late = [word for words in self.words for word in words[lines:]]
        return {(word.lane, order) for word in late for order, *_ in word.groups}

    def entries(self, lines: int) -> list[tuple]:
        late = [entry for words in self.words for word in words[lines:] for entry in word.weights]
        return sorted(self.left + late)

    def sizes(self, lines: int) -> tuple[int, int, int, int]:
        """Steps, far ones, where lines stand, bytes."""
        steps = -(-len(self.entries(lines)) // 8)
        steps += steps in (3, 7, 11)
        near = min(steps, 12)
        lines_at = 768 + 128 * -(-(40 + 40 * near + 32 * (near // 4)) // 128)
        nbytes = lines_at + 128 * lines + 128 * -(-40 * (steps - near) // 128)
        return steps, steps - near, lines_at, nbytes

    def lines(self) -> int:
        """The number that costs least; of equals the largest."""
        most = max(len(words) for words in self.words)
        costs = {}
        for lines in range(most, max(0, most - 13) - 1, -1):
            steps, far, lines_at, nbytes = self.sizes(lines)
            narrow = lines_at + 128 * lines > 4096
            fours = (steps - far) // 4
            costs[lines] = nbytes + 256 * (steps - 4 * fours) + 640 * fours
            costs[lines] += 768 * far + 2048 * narrow
        return min(costs, key=costs.get)  # the first of equals

    def bytes(self, begin: int) -> np.ndarray:
        """`begin`: where the chunk stands in `data`."""
        lines = self.lines()
        steps, far, lines_at, nbytes = self.sizes(lines)
        data = np.zeros(nbytes, np.uint8)
        words, halves = data.view(np.uint32), data.view(np.uint16)
        words[:128] = 0x22222222
        for bank, there in enumerate(self.words):
            for line, word in enumerate(there[:lines]):
                at = (lines_at + 128 * line) // 2 + 2 * bank
                halves[at : at + len(word.values)] = word.values
                self.put_groups(words, word)
        entries, fours = self.in_fours(self.steps(lines), steps - far)
        words[192] = lines_at | (steps - far - 4 * fours | fours << 4 | far << 6) << 16
        far_at = lines_at + 128 * lines
        words[193] = (begin + far_at) // 16 if far else 0
        data[BANKS : BANKS + 32] = [self.bank[lane] for lane in range(32)]
        for step, own in enumerate(entries):
            at = STEPS + 40 * step if step < 12 else far_at + 40 * (step - 12)
            column = (own if own[0][1] else entries[0])[0][2]
            values, rows, columns = zip(*[e if e[1] else (0, 0, column) for e in own], strict=True)
            pairs = np.array([values, rows]).reshape(2, 4, 2).transpose(1, 0, 2)
            halves[at // 2 :][:16] = pairs.ravel()
            data[at + 32 : at + 40] = columns
        for four in range(fours):
            at, first = STEPS + 40 * (steps - far) + 32 * four, steps - far - 4 * (fours - four)
            words[at // 4 :][:8] = four_metadata(entries[first : first + 4])
        return data

    @staticmethod
    def put_groups(words: np.ndarray, word: SlowWord) -> None:
        for order, halves, nibble in word.groups:
            step, tile, half, r = order // 16, order // 4 % 4, order // 2 % 2, order % 2
            t, at = word.lane % 4, 4 * (word.lane // 4 * 4 + 2 * step + half) + tile
            words[at] ^= (nibble ^ 2) << (16 * r + 4 * t)
            for h in halves:
                words[128 + 32 * step + word.lane] |= 1 << 8 * (2 * r + h) + 7 - (2 * tile + half)

    def steps(self, lines: int) -> list[list[tuple[int, int, int]]]:
        """Entries (value, bit of the row, column) of steps, all places in use; 0s: not in use."""
        entries = self.entries(lines)
        queues = [[e for e in entries if e[2] % 8 == place] for place in range(8)]
        queues = [queue[::-1] if place % 2 else queue for place, queue in enumerate(queues)]
        turns = [[e for e in turn if e is not None] for turn in zip_longest(*queues)]
        steps, far, *_ = self.sizes(lines)
        near = steps - far
        found = turns[:near] + [[] for _ in range(near - len(turns))]
        rest = [e for turn in turns[near:] for e in turn]
        for step in reversed(found):
            room = 8 - len(step)
            step += rest[:room]
            rest = rest[room:]
        found += [rest[i : i + 8] for i in range(0, len(rest), 8)]
        return [
            [(e[3], 1 << e[4], e[2]) for e in step] + [(0, 0, 0)] * (8 - len(step))
            for step in found
        ]

    @staticmethod
    def in_fours(steps: list, near: int) -> tuple[list, int]:
        """Those of fours by rows; how many fours there are."""
        found = list(steps)
        for i in range(near % 4, near):
            by_rows = sorted(steps[i], key=lambda entry: entry[1] or 1 << 16)
            found[i] = [by_rows[n] for n in (0, 1, 4, 5, 2, 3, 6, 7)]
            if any(found[i][n][1] & found[i][n ^ 2][1] for n in range(8)):
                return steps, 0
        return found, near // 4


def four_metadata(steps: list[list[tuple[int, int, int]]]) -> list[int]:
    """Of four steps: a word for rows g and g + 8."""
    words = [0] * 8
    for (nth, step), h, i in product(enumerate(steps), range(2), range(2)):
        q, row = 2 * nth + h, step[4 * h + 2 + i][1].bit_length() - 1
        if row >= 0:
            words[row % 8] |= 1 << 4 * (q % 4) + q // 4 + 2 * i + 16 * (row // 8)
    return words


def slow_encoding(dense: torch.Tensor) -> list[np.ndarray]:
    """The bytes of all chunks."""
    (M, K), bits = dense.shape, bits_of(dense)
    padded = np.pad(bits, ((0, -M % 64), (0, -K % 256)))
    chunks, begin = [], 0
    for row in range(0, padded.shape[0], 16):
        for column in range(0, padded.shape[1], 256):
            chunk = SlowChunk(padded[row : row + 16, column : column + 256])
            chunks.append(chunk.bytes(begin))
            begin += chunks[-1].size
    return chunks
