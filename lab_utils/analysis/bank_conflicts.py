"""Banks of shared memory, and the order of words that avoids their conflicts.

Flash-LLM's extract stage scatters the words of a Tiled-CSL tile into a dense tile in shared
memory (section 4.3.3, algorithm 3). A request is what the lanes of a warp store at once.
It takes as many wavefronts as its busiest bank gets different 4-byte words. Nothing here runs a
kernel: what kernels really ask for, the emulator counts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]

VECTOR = 4  # words that a lane loads at once, and stores one after the other
# The line of kernels/spmm/tiled_csl.cu that scatters: one request each time a warp comes by.
SCATTER = "a.store(word >> 16, uint16_t(word));"


@dataclass(frozen=True)
class Layout:
    """A dense tile [rows, cols] of 2-byte weights in shared memory, its rows as wide as all banks.

    Chunks of `chunk` columns are swizzled, since ldmatrix reads the same chunk of cols / chunk rows
    at once. A warp has as many lanes as there are `banks`.
    """

    rows: int
    cols: int
    chunk: int

    @property
    def banks(self) -> int:
        """Of 4 bytes, two weights, each."""
        return self.cols // 2

    @property
    def chunks(self) -> int:
        """Of a row: after so many rows the swizzle repeats."""
        return self.cols // self.chunk

    def location(self, row: ArrayLike, col: ArrayLike, swizzled: bool = True) -> Ints:
        """Where element (row, col) lies, in elements: row * 64 + (col XOR 8 * (row mod 8))."""
        row, col = np.asarray(row), np.asarray(col)
        turn = self.chunk * (row % self.chunks) if swizzled else 0
        return row * self.cols + (col ^ turn)

    def place(self, location: ArrayLike) -> tuple[Ints, Ints]:
        """The row and column that lie there."""
        row, col = np.divmod(location, self.cols)
        return row, col ^ self.chunk * (row % self.chunks)

    def bank(self, location: ArrayLike) -> Ints:
        """The bank that it lies in: (location / 2) mod 32."""
        return np.asarray(location) // 2 % self.banks

    def paper_bank(self, location: ArrayLike) -> Ints:
        """The bank by line 13 of algorithm 3, (x % 8) * 4 + (y % 8) // 2.

        Right in the first chunk of a row only: it leaves out what the swizzle does to the others.
        """
        row, col = self.place(location)
        return row % self.chunks * (self.chunk // 2) + col % self.chunk // 2


TILE = Layout(rows=128, cols=64, chunk=8)  # Tiled-CSL's: 32 banks
SMALL = Layout(rows=8, cols=8, chunk=2)  # 4 banks and 4 lanes, as in Flash-LLM's figure 8

BankOf = Callable[[Layout, ArrayLike], Ints]


@dataclass(frozen=True)
class Pick:
    """A word leaves its bucket: number `word` of those in row order, from `bank`.

    `slot` is its place among the tile's words; `left` int [banks]: what buckets hold afterwards.
    """

    word: int
    bank: int
    slot: int
    left: Ints


def locations(nonzero: NDArray[np.bool_], layout: Layout = TILE) -> Ints:
    """Locations of a tile's words in row order: its non-zeros', then those of its padding.

    Padding fills up the last vector, each word at a zero of the bank that has fewest words.
    `nonzero` bool [rows, cols]. Raises ValueError for another shape.
    """
    if nonzero.shape != (layout.rows, layout.cols):
        allowed = f"allowed: [{layout.rows}, {layout.cols}]"
        raise ValueError(f"nonzero: shape {list(nonzero.shape)}; {allowed}")
    taken = layout.location(*np.nonzero(nonzero)).tolist()
    in_bank = np.bincount(layout.bank(taken).astype(int), minlength=layout.banks)
    everywhere = np.arange(nonzero.size)
    free = np.setdiff1d(everywhere, taken)
    for _ in range(-len(taken) % VECTOR):
        bank = int(in_bank.argmin())
        mine = free[layout.bank(free) == bank][0]
        taken.append(int(mine))
        free, in_bank[bank] = free[free != mine], in_bank[bank] + 1
    return np.array(taken, dtype=np.int64)


def slots(words: int, lanes: int) -> Iterator[int]:
    """Places of a tile's words in the order in which algorithm 3 fills them: the tail first.

    In round r, word v of lane l is at 4 * (lanes * r + l) + v; a request is filled at once.
    """
    rounds, tail = divmod(words // VECTOR, lanes)
    for start, width in [(rounds, tail), *((r, lanes) for r in range(rounds))]:
        for step in range(VECTOR):
            for lane in range(width):
                yield VECTOR * (lanes * start + lane) + step


def picks(in_order: Ints, layout: Layout = TILE, bank_of: BankOf = Layout.bank) -> list[Pick]:
    """Algorithm 3, word by word: always the last one of the fullest bucket (ties: the lowest).

    `in_order` are locations, as `locations` gives them; `bank_of` says which bucket each is put in.
    """
    banks = bank_of(layout, in_order)
    buckets = [list(np.flatnonzero(banks == bank)) for bank in range(layout.banks)]
    left, steps = np.array([len(bucket) for bucket in buckets]), []
    for slot in slots(len(in_order), layout.banks):
        bank = int(left.argmax())
        word = int(buckets[bank].pop())
        left = left - (np.arange(layout.banks) == bank)
        steps.append(Pick(word, bank, slot, left))
    return steps


def reordered(in_order: Ints, steps: Sequence[Pick]) -> Ints:
    """The locations in the order that these picks make."""
    order = np.empty_like(in_order)
    order[[pick.slot for pick in steps]] = in_order[[pick.word for pick in steps]]
    return order


def requests(tile: Ints, layout: Layout = TILE) -> list[Ints]:
    """What warps store at once, of the locations of one tile's words as they lie in memory.

    A warp takes a vector per lane, and stores its words in four steps: a request each.
    """
    rounds = np.split(tile, range(VECTOR * layout.banks, len(tile), VECTOR * layout.banks))
    return [words[step::VECTOR] for words in rounds if len(words) for step in range(VECTOR)]


def stacks(request: Ints, layout: Layout = TILE) -> Ints:
    """Different 4-byte words of a request in each bank, [banks]: two halves of a word are one."""
    return np.bincount(np.unique(request // 2) % layout.banks, minlength=layout.banks)


def wavefronts(request: Ints, layout: Layout = TILE) -> int:
    """Wavefronts that a request takes: those of its busiest bank."""
    return int(stacks(request, layout).max())


@dataclass(frozen=True)
class Scatter:
    """What it costs to scatter words: `requests` of a warp, and the `wavefronts` that they take.

    `bound`: no order takes fewer wavefronts, as long as no request holds both halves of a 4-byte
    word. A tile has so many requests, and its fullest bank so many weights.
    """

    requests: int = 0
    wavefronts: int = 0
    bound: int = 0

    def __add__(self, other: "Scatter") -> "Scatter":
        return Scatter(
            self.requests + other.requests,
            self.wavefronts + other.wavefronts,
            self.bound + other.bound,
        )

    @property
    def per_request(self) -> float:
        """Wavefronts per request: 1 is no conflict; NaN without a word."""
        return self.wavefronts / self.requests if self.requests else float("nan")


def scatter_of(tile: Ints, layout: Layout = TILE) -> Scatter:
    """What one tile costs, of the locations of its words as they lie in memory."""
    asked = requests(tile, layout)
    in_bank = np.bincount(layout.bank(tile), minlength=layout.banks)
    cost = sum(wavefronts(request, layout) for request in asked)
    return Scatter(len(asked), cost, max(len(asked), int(in_bank.max())))


def tiles_of(words: ArrayLike, tile_offsets: ArrayLike) -> list[Ints]:
    """Locations of each tile's words: of the arrays of a Tiled-CSL encoding."""
    places = np.asarray(words).astype(np.int64) >> 16 & 0xFFFF
    return np.split(places, VECTOR * np.asarray(tile_offsets)[1:-2])


def scatter(words: ArrayLike, tile_offsets: ArrayLike) -> Scatter:
    """What all tiles of a Tiled-CSL encoding cost together."""
    return sum((scatter_of(tile) for tile in tiles_of(words, tile_offsets)), Scatter())


def reorder_by(
    words: NDArray[np.int32], tile_offsets: ArrayLike, bank_of: BankOf
) -> NDArray[np.int32]:
    """The words of an encoding in row order, reordered by algorithm 3 with buckets by `bank_of`."""
    parts, start = [], 0
    for tile in tiles_of(words, tile_offsets):
        mine = words[start : start + len(tile)]
        parts.append(reordered(mine, picks(tile, TILE, bank_of)))
        start += len(tile)
    return np.concatenate(parts) if parts else words
