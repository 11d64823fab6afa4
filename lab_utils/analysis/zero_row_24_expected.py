"""The bytes of zero-row 2:4 that a random mask is expected to take, and what its chunks cost.

A has density d. A row of a group of three columns has all three weights with probability d³; its
middle one then goes to an extra chunk, in a queue of columns for each tile of r rows. So a group
sends a column there with probability 1 − (1 − d³)^r, and in the queue that column has density
d³ / (1 − (1 − d³)^r). Three columns of the queue are again a group, of that density, and send a
column: the same step, until nothing is left. A block has as many extra chunks as the longest of its
four queues has 48 columns, begun ones included. With levels = 1, middle ones stand in chunks of
level 1 first, which have density d³, and queues are filled by their groups, with d⁹ instead of d³.
A row of a six sends column i of 0 to 5 with probability d (1 − (1 − d)ⁱ) (1 − (1 − d)⁵⁻ⁱ): whatever
stands between two others. Nested chunks have level 1 inside, and lists of 72 columns.
(kernels/cpu/encode/zero_row_24.h: the layout.)
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lab_utils.analysis.zero_row_24 import (
    CHUNK_COST,
    COLS,
    GEOMETRY_BYTES,
    LEVEL_COLS,
    METADATA_BYTES,
    NESTED_COLS,
    OFFSET_BYTES,
    ORDERS,
    ROUNDING_BYTES,
    ROWS,
    SIX,
    STARTS_BYTES,
    TAIL_BYTES,
    TILE_ROWS,
    Streams,
    chosen_streams,
    has_levels,
    header_bytes,
    list_bytes,
    piece_cols,
    slice_columns,
    width_of,
)
from lab_utils.analysis.zero_row_24_padding import (
    density_of_level,
    padding_of_nested,
    padding_of_stream,
    sending,
)

_normal = np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2, otypes=[float])


class Chunks(NamedTuple):
    """Chunks of each kind, the extra ones expected; zeros beside lone values of paired streams.

    `pieces`, of 48 columns or, nested, 72, are in regular chunks; all others are one.
    """

    regular: int
    pieces: int
    level: np.ndarray
    extra: np.ndarray
    padding: np.ndarray

    @property
    def count(self) -> np.ndarray:
        return self.regular + self.level + self.extra

    @property
    def all_pieces(self) -> np.ndarray:
        return self.pieces + self.level + self.extra


def parts(
    M: int,
    K: int,
    density: np.ndarray,
    streams: Streams | bool | None = None,
    slice_cols: int | None = None,
    levels: int | None = None,
) -> dict[str, np.ndarray]:
    """Expected bytes of the encoding, by purpose; packed ones before streams move for their banks.

    "values": weights, the zeros beside them and at the end of chunks; "indices": metadata and lists
    of columns; "offsets": starts of streams, and tables. Nested chunks of next to no weights have
    896 bytes, some 50 more than here. `streams`, `slice_cols` and `levels` None: what
    `ZeroRow24.encode` chooses; where `levels` are given, among streams that have them.
    """
    if streams is None:
        each = {one: parts(M, K, density, one, slice_cols, levels) for one in Streams}
        chosen = chosen_streams(M, K, 1 - density, slice_cols, levels)
        names = list(each[Streams.PACKED])
        return {part: np.choose(chosen, [each[one][part] for one in Streams]) for part in names}
    found = chunks(M, K, density, streams, slice_cols, levels)
    blocks = -(-K // (slice_cols or slice_columns(M, K, streams))) * -(-M // ROWS)
    values = 2 * M * K * density + (TAIL_BYTES + ROUNDING_BYTES[streams]) * found.count
    tables = OFFSET_BYTES * (found.count + blocks + 2) + GEOMETRY_BYTES
    return {
        "values": values + 2 * found.padding,
        "indices": METADATA_BYTES[streams] * found.all_pieces + list_bytes(streams) * found.extra,
        "offsets": STARTS_BYTES * found.count + tables,
    }


def cost(
    count: np.ndarray, extra: np.ndarray, padding: np.ndarray, streams: Streams | bool
) -> np.ndarray:
    """What chunks, so many of them extra, and zeros take beside values: in bytes."""
    own = header_bytes(streams) + TAIL_BYTES + ROUNDING_BYTES[streams] + OFFSET_BYTES
    return (own + CHUNK_COST) * count + list_bytes(streams) * extra + 2 * padding


def chunks(
    M: int,
    K: int,
    density: np.ndarray,
    streams: Streams | bool,
    slice_cols: int | None = None,
    levels: int | None = None,
) -> Chunks:
    """What A is cut into; `levels` None: by what has the smaller `cost`."""
    slice_cols = slice_cols or slice_columns(M, K, streams)
    if not has_levels(streams):
        return _chunks(M, K, density, streams, slice_cols, 0)
    if levels is not None:
        return _chunks(M, K, density, streams, slice_cols, levels)
    both = [_chunks(M, K, density, streams, slice_cols, levels) for levels in (0, 1)]
    lists, level = (cost(one.count, one.extra, one.padding, streams) for one in both)
    return Chunks(*(np.where(level < lists, b, a) for a, b in zip(*both, strict=True)))


def _chunks(
    M: int, K: int, density: np.ndarray, streams: Streams | bool, slice_cols: int, levels: int
) -> Chunks:
    regular, pieces, level, extra, padding = 0, 0, 0 * density, 0 * density, 0 * density
    width, each = width_of(streams), piece_cols(streams)
    for cols, slices in cut(K, slice_cols):
        for rows, blocks in cut(M, ROWS):
            n, queues = slices * blocks, _queues(rows, cols, density, levels, streams)
            regular, pieces = regular + n * -(-cols // width), pieces + n * -(-cols // each)
            level = level + n * levels * -(-cols // LEVEL_COLS)
            extra = extra + n * _extra_of_block(queues, cols, each)
            if streams:
                size = SIX if streams == Streams.SIXES else 3
                padding = padding + n * _padding_of_queues(queues, size)
                if streams == Streams.NESTED:
                    padding = padding + n * _padding_of_nested(rows, cols, density)
                elif levels:
                    padding = padding + n * _padding_of_levels(rows, cols, density)
                else:
                    padding = padding + n * _padding(rows, cols, density, size, width)
    return Chunks(regular, pieces, level, extra, padding)


def _padding(rows: int, cols: int, density: np.ndarray, size: int, width: int) -> np.ndarray:
    """Zeros beside lone values of chunks that hold rows x cols, each pair of rows a stream."""
    widths = cut(cols, width)
    return 0 * density + rows / 2 * sum(
        n * padding_of_stream(density, 2 * width / size, size) for width, n in widths
    )


def _padding_of_levels(rows: int, cols: int, density: np.ndarray) -> np.ndarray:
    """The same of regular chunks that send middle weights, and of level 1."""
    widths, d = cut(cols, COLS), density_of_level(density)
    regular = rows / 2 * sum(n * sending(density, round(2 * width / 3))[0] for width, n in widths)
    return regular + _padding(rows, cols // 3, d, 3, COLS)


def _padding_of_nested(rows: int, cols: int, density: np.ndarray) -> np.ndarray:
    """The same of nested chunks, and of level 1 in them, which ends with whole words."""
    widths = cut(cols, NESTED_COLS)
    return (
        rows / 2 * sum(n * padding_of_nested(density, width / NESTED_COLS) for width, n in widths)
    )


def _extra_of_block(
    queues: list[tuple[np.ndarray, ...]], cols: int, each: int = COLS
) -> np.ndarray:
    """Expected extra chunks: how often is a queue longer than so many columns times 0, 1, 2, …"""
    steps = each * np.arange(1 + 2 * cols // each).reshape(-1, *[1] * queues[0][0].ndim)
    fits = math.prod(_normal((steps + 0.5 - mean) / sigma) for mean, sigma, _, _ in queues)
    fits[0] = math.prod(empty for _, _, empty, _ in queues)
    return (1 - fits).sum(0)


def _padding_of_queues(queues: list[tuple[np.ndarray, ...]], size: int) -> np.ndarray:
    """Zeros beside lone values of a block's extra chunks."""
    groups = ORDERS * 3 / size  # of a stream
    return sum(
        8 * 2 * mean / size / groups * padding_of_stream(first, groups, size)
        for mean, _, _, first in queues
    )


def _queues(
    rows: int, cols: int, density: np.ndarray, levels: int, streams: Streams | bool
) -> list[tuple[np.ndarray, ...]]:
    """Of each tile of a block of rows x cols: see `_queue`."""
    heights = [height for height, n in cut(rows, TILE_ROWS) for _ in range(n)]
    if streams == Streams.SIXES:
        both = cols // COLS * (COLS // SIX) + max(0, cols % COLS - COLS // 2) // 3  # of either step
        return [_queue_of_sixes(height, both, density) for height in heights]
    level = levels or streams == Streams.NESTED
    groups, sent = (cols // 9, density**3) if level else (cols // 3, density)
    return [_queue(height, groups, sent) for height in heights]


def _queue(rows: int, groups: float, density: np.ndarray) -> tuple[np.ndarray, ...]:
    """Columns in the queue of a tile: mean, deviation, how often none; density of the first."""
    mean, variance, empty, first = 0 * density, 1e-9, None, None
    while first is None or np.max(groups) > 0.003:
        full = density**3
        sends = 1 - (1 - full) ** rows
        variance = variance + groups * sends * (1 - sends)
        empty = (1 - sends) ** groups if empty is None else empty
        density = np.divide(full, sends, out=np.zeros_like(sends), where=sends > 0)
        first = density if first is None else first
        mean, groups = mean + groups * sends, groups * sends / 3
    return mean, np.sqrt(variance), empty, first


def _queue_of_sixes(rows: int, sixes: float, density: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same of sixes: columns of each of their places, then those that these send, and so on.

    What stands there is made whole, to six words, each time that it sends.
    """
    mean, variance, first, empty = 0 * density, 1e-9, None, None
    while first is None or np.max(sixes) > 0.01:
        sends, weights, spread, none = 0 * density, 0 * density, 0 * density, 1
        for i in range(1, SIX - 1):
            between = density * (1 - (1 - density) ** i) * (1 - (1 - density) ** (SIX - 1 - i))
            some = 1 - (1 - between) ** rows
            sends, weights, spread = sends + some, weights + between, spread + some * (1 - some)
            none = none * (1 - some)
        variance = variance + sixes * spread
        empty = none**sixes if empty is None else empty
        density = np.divide(weights, sends, out=np.zeros_like(sends), where=sends > 0)
        first = density if first is None else first
        whole = (SIX - 1) / 2 * (1 - none**sixes)
        mean, sixes = mean + sixes * sends + whole, sixes * sends / SIX
    return mean, np.sqrt(variance), empty, first


def cut(length: int, piece: int) -> Iterator[tuple[int, int]]:
    """Lengths of the pieces of `length`, and how many there are of each."""
    if length >= piece:
        yield piece, length // piece
    if length % piece:
        yield length % piece, 1
