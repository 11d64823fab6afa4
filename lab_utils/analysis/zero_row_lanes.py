"""What 32 lanes do with a tile of zero-row 2:4, as kernels/spmm/hopper_mma.cu does it.

A tile has 16 rows and 48 columns: two steps of mma.sp.m16n8k32, eight groups of three columns each.
Lane 4 g + t holds, in register 2 half + h of a step, the two slots of row g + 8 h, group
4 half + t. Their values lie in stream g at place 16 step + 8 half + 4 h + t.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab_utils.analysis.zero_row_24 import (
    COLS,
    LEVEL_COLS,
    ORDERS,
    ROWS,
    START_BYTES,
    TILE_ROWS,
    Streams,
    header_bytes,
)
from lab_utils.analysis.zero_row_24_streams import codes_of, starts_of

ZERO_ROW = -1  # in place of a column: B's row of zeros
UNUSED = 3  # index of a slot that is not in use
GROUPS, STEP_GROUPS, BITS = 16, 8, 4  # of a tile's row, of a step; of metadata or presence a group
NOTHING = 0xFFFF  # in a list of columns


@dataclass(frozen=True)
class Tile:
    """Tile 0 to 3 of a chunk.

    `codes` int [8, 32] and `starts` int [8]: metadata and beginning of each stream; `halves`: the
    whole chunk as fp16 values; `columns` int [16, 4]: the row of B behind each index of each
    group, or `ZERO_ROW`.
    """

    codes: NDArray[np.int64]
    starts: NDArray[np.int64]
    halves: NDArray
    columns: NDArray[np.int64]
    pairs: bool

    @property
    def indices(self) -> NDArray[np.int64]:
        """Of both slots, int [8, 32, 2]."""
        return np.stack([self.codes % 4, self.codes // 4], axis=-1)


@dataclass(frozen=True)
class Place:
    """What a register of a lane is for: a row of the tile, a group of it, its place in stream g."""

    g: int
    row: int
    group: int
    order: int


def place(lane: int, register: int, step: int) -> Place:
    """Raises ValueError for a lane, a register or a step that there is not."""
    if not (0 <= lane < 32 and 0 <= register < 4 and step in (0, 1)):
        raise ValueError(
            f"lane={lane}, register={register}, step={step}: allowed: 0 to 31, 0 to 3, 0 to 1"
        )
    (g, t), (half, h) = divmod(lane, 4), divmod(register, 2)
    return Place(g, g + 8 * h, 8 * step + 4 * half + t, 16 * step + 8 * half + 4 * h + t)


def tiles_of(arrays: Mapping[str, NDArray], chunk: int, cols: int) -> list[Tile]:
    """The four tiles of a chunk of the first block, whose slice has `cols` columns; fp16.

    Raises ValueError for sixes, whose words serve both steps, and for nested chunks: here each step
    has its own words, and level 1 its own chunks.
    """
    _, levels, kind = arrays["geometry"][:3].tolist()
    if kind not in (Streams.PACKED, Streams.PAIRS):
        raise ValueError(f"streams are {Streams(kind).name.lower()}; allowed: packed, pairs")
    pairs = kind == Streams.PAIRS
    first, last = arrays["chunk_start"][chunk : chunk + 2].astype(np.int64) * START_BYTES
    data = np.ascontiguousarray(arrays["data"][first:last])
    codes, starts = codes_of(data, pairs), starts_of(data, pairs)
    lists = data[header_bytes(pairs) :]
    columns = _columns(lists, chunk, cols, levels)
    return [Tile(codes[m], starts[m], data.view(np.float16), columns[m], pairs) for m in range(4)]


def _columns(lists: NDArray[np.uint8], nth: int, cols: int, levels: int) -> NDArray[np.int64]:
    """The row of B behind each index, int [tile, group, index]."""
    regular = -(-cols // COLS)
    if nth >= regular + levels * -(-cols // LEVEL_COLS):
        listed = lists[: 4 * GROUPS * 4 * 2].view(np.uint16).reshape(4, GROUPS, 4).astype(int)
        return np.where(listed == NOTHING, ZERO_ROW, listed)
    columns = np.full((GROUPS, 4), ZERO_ROW)
    own = np.arange(COLS).reshape(GROUPS, 3)
    columns[:, :3] = COLS * nth + own if nth < regular else 3 * (COLS * (nth - regular) + own) + 1
    return np.tile(np.where(columns < cols, columns, ZERO_ROW), (4, 1, 1))


# --- the binary tensor core counts ---


def presence(codes: NDArray[np.int64], pairs: bool) -> NDArray[np.bool_]:
    """Of each group as many bits as its values take bytes: [8, 32] -> bool [8, 128].

    A row is bmma's operand A: the words of four lanes.
    """
    first, second = codes % 4 != UNUSED, codes // 4 != UNUSED
    bits = [second] * BITS if pairs else [first, first, second, second]
    return np.stack(bits, axis=-1).reshape(len(codes), -1)


def rank_masks(gather: int) -> NDArray[np.bool_]:
    """bmma's operand B, bool [8, 128]: column 2 t + h has the bits of all groups before its own.

    `gather` is 2 step + half.
    """
    column = np.arange(8)
    mine = 8 * gather + column % 2 * 4 + column // 2
    return np.arange(ORDERS).repeat(BITS) < mine[:, None]


def bmma(A: NDArray[np.bool_], B: NDArray[np.bool_], C: NDArray[np.int64]) -> NDArray[np.int64]:
    """D = C + popcount(row of A and column of B): bool [r, 128], bool [8, 128] -> int [r, 8]."""
    return C + A.astype(int) @ B.T.astype(int)


def addresses(tile: Tile) -> NDArray[np.int64]:
    """Where each group's values begin, as bmma computes it: bytes in the chunk, int [8, 32]."""
    bits, found = presence(tile.codes, tile.pairs), np.empty((8, 4, 2, 4), int)
    for gather in range(4):
        sums = bmma(bits, rank_masks(gather), tile.starts[:, None])
        found[:, gather] = sums.reshape(8, 4, 2).transpose(0, 2, 1)  # t, h -> h, t
    return found.reshape(8, ORDERS)


# --- and mma.sp selects ---


def loaded(tile: Tile) -> NDArray:
    """What lanes load into both slots of each group, in use or not: [8, 32, 2]."""
    first = addresses(tile) // 2
    return tile.halves[np.stack([first, first + 1], axis=-1)]


def selected(tile: Tile, step: int) -> NDArray[np.float64]:
    """The 16 x 32 operand that mma.sp multiplies: each slot's value in the column of its index.

    What a slot that is not in use holds is in column 3 of its group, added up.
    """
    orders = np.arange(16 * step, 16 * step + 16)
    row = np.arange(8)[:, None, None] + 8 * (orders // 4 % 2)[:, None]
    group = (orders // 8 % 2 * 4 + orders % 4)[:, None]
    operand = np.zeros((TILE_ROWS, 4 * STEP_GROUPS))
    values = loaded(tile)[:, orders].astype(float)
    np.add.at(operand, (row, 4 * group + tile.indices[:, orders]), values)
    return operand


def rows_of(tile: Tile, B: NDArray, step: int) -> NDArray:
    """The 32 rows of B [K, N] that mma.sp meets: of each group its three, and one of zeros."""
    columns = tile.columns[STEP_GROUPS * step : STEP_GROUPS * (step + 1)].reshape(-1)
    return np.where(columns[:, None] == ZERO_ROW, 0, B[columns])


def multiply(tile: Tile, B: NDArray) -> NDArray[np.float64]:
    """The tile's part of C: [16, N], in fp64."""
    return sum(selected(tile, step) @ rows_of(tile, B, step).astype(float) for step in (0, 1))


def product(arrays: Mapping[str, NDArray], B: NDArray) -> NDArray[np.float64]:
    """C [64, N] of the first block, all its chunks; its slice are all K columns of A.

    Raises ValueError as `tiles_of` does.
    """
    chunks = range(int(arrays["first_chunk"][1]))
    C = np.zeros((ROWS // TILE_ROWS, TILE_ROWS, B.shape[1]))
    for chunk in chunks:
        for part, tile in zip(C, tiles_of(arrays, chunk, len(B)), strict=True):
            part += multiply(tile, B)
    return C.reshape(ROWS, -1)
