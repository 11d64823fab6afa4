"""Zero-row 2:4 in numbers: its layout, and what suits a matrix."""

import math
from enum import IntEnum

import numpy as np


class Streams(IntEnum):
    """How values stand in an encoding: one behind the other, or in words of two values.

    A word has two values of a group, or of two groups with one each; of a six, which is a group of
    either step of mma.sp, or of two of these. Nested: words whose chunks have their level 1 inside.
    (False and True are PACKED and PAIRS.)
    """

    PACKED = 0
    PAIRS = 1
    SIXES = 2
    NESTED = 3

    @classmethod
    def named(cls, name: str) -> "Streams":
        """That of an option `streams`, by name; raises ValueError for any other."""
        if isinstance(name, cls):
            return name
        if name not in (names := [one.name.lower() for one in cls]):
            raise ValueError(f"streams={name!r}; allowed: None, {', '.join(map(repr, names))}")
        return cls[name.upper()]


ROWS, TILE_ROWS = 64, 16  # of a piece of a chunk; of one of its four tiles
COLS, NESTED_COLS = 48, 72  # of a piece; of a nested one
LEVEL_COLS = 3 * COLS  # that a chunk of level 1 stands for
ORDERS = 32  # groups of a stream: 16 of either row
NESTED_ORDERS, LEVEL_ORDERS = 48, 16  # of a nested one, and those of its level 1
SLICE_COLS = 2406  # of B: 16 of them beside the rings of a kernel, in 228 KB of shared memory
# A small matrix, of so many weights, has slices of fewer columns, if there are at most so many
# slices: its warps wait for B before they begin, but partial sums of many slices cost more.
SMALL, SLICE_COLS_IF_SMALL, FEW_SLICES = 1 << 26, 1850, 4
# A tiny one, of so many weights and rows at most, has no fewer slices than those, from so many
# columns on: else a thread block would begin with more of B for less than two blocks of A.
TINY, TINY_ROWS, TINY_COLS = 1 << 24, 4096, 1536
# Bytes that a chunk's time is worth, whatever it holds: on an H200, level 1 of packed streams pays
# at .6, where it saves 6 % with 16 columns, and not at .65, where it loses 3 % with 8; on an H100
# that of words pays at .72, by 1 %, and not at .75.
CHUNK_COST = 200
# Sparsity from which streams of matrices up to so many weights are words of two values, if their
# chunks are not nested: where loads, and what a product takes however few its bytes are, bind more
# than bytes do.
PAIRS_FROM = {SMALL // 2: 0.19, SMALL: 0.55, math.inf: 0.65}
# Sparsity from which, and below which, chunks of such matrices have their level 1 inside: larger
# chunks, of fewer bytes, whose time is longer than that of their bytes where these are few.
NESTED = {
    SMALL // 2: (1.0, 0.0), SMALL: (0.49, 0.66), 2 * SMALL: (0.49, 0.72), math.inf: (0.49, 0.77)
}  # fmt: skip
# Where two chunks for each of 12 warps do not fit beside a slice of 16 columns of B, blocks have 8
# of them, and A is read twice: bytes of shared memory for both; of a stage, which holds a chunk and
# what a line of memory has before it; of zeros beside B.
BESIDE_16, STAGE_LINE, BEFORE_CHUNK, ZEROS, RINGS = 223 * 1024, 128, 96, 384, 2 * 12
# And from which on words are of sixes: one load and one address for both steps, and three quarters
# of the metadata, where few sixes have more than two values.
SIXES_FROM = 0.86
MULTIPROCESSORS = 132  # of an H100 or H200, which all slices share equally

# Of a piece: nibbles of mma.sp; codes of 3 bits; of sixes indices, and a bit for each slot.
METADATA_BYTES = {
    Streams.PACKED: 384, Streams.PAIRS: 512, Streams.SIXES: 384, Streams.NESTED: 768
}  # fmt: skip
STARTS_BYTES, TAIL_BYTES = 64, 4
OFFSET_BYTES, GEOMETRY_BYTES, START_BYTES = 4, 20, 16  # the last: unit of chunk_start
# Sizes are rounded up to 32 bytes, from even ones or, with words, multiples of 4.
ROUNDING_BYTES = {Streams.PACKED: 15} | dict.fromkeys(list(Streams)[1:], 14)
SIX = 6  # columns
PIECES = dict.fromkeys(Streams, 1) | {Streams.SIXES: 2}  # in a regular chunk


def slice_columns(
    M: int, K: int, streams: Streams = Streams.PAIRS, multiprocessors: int = MULTIPROCESSORS
) -> int:
    """Columns of a slice of A [M, K]: K in as few slices as allowed that share the multiprocessors.

    Each block of a kernel holds one slice of B in shared memory, and all slices get as many blocks;
    so their number divides that of the multiprocessors.
    """
    small = M * K <= SMALL and K <= FEW_SLICES * SLICE_COLS_IF_SMALL
    most = SLICE_COLS_IF_SMALL if small else SLICE_COLS
    tiny = M * K <= TINY and M <= TINY_ROWS and K >= TINY_COLS
    least = FEW_SLICES if tiny else 1
    counts = (n for n in range(least, multiprocessors + 1) if multiprocessors % n == 0)
    slices = next((n for n in counts if n * most >= K), -(-K // most))
    return whole_pieces(-(-K // slices), streams)


def pairs_pay(M: int, K: int, sparsity: float | np.ndarray) -> bool | np.ndarray:
    """Whether streams of A [M, K] are words of two values, if nothing else is asked for."""
    return sparsity >= next(least for most, least in PAIRS_FROM.items() if most >= M * K)


def nesting_pays(M: int, K: int, sparsity: float | np.ndarray) -> bool | np.ndarray:
    """Whether chunks of A [M, K] have their level 1 inside, if nothing else is asked for."""
    least, most = next(bounds for size, bounds in NESTED.items() if size >= M * K)
    return (sparsity >= least) & (sparsity < most)


def chosen_streams(
    M: int,
    K: int,
    sparsity: float | np.ndarray,
    slice_cols: int | None = None,
    levels: int | None = None,
) -> np.ndarray:
    """Numbers of the `Streams` of A [M, K], if none are asked for: of those that options allow."""
    cut = slice_cols is None or slice_cols % NESTED_COLS == 0
    nested = (levels is None and cut) & nesting_pays(M, K, sparsity)
    sixes = (levels is None) & (sparsity >= SIXES_FROM)
    words = np.where(pairs_pay(M, K, sparsity), int(Streams.PAIRS), int(Streams.PACKED))
    return np.where(sixes, int(Streams.SIXES), np.where(nested, int(Streams.NESTED), words))


def streams_of(
    M: int, K: int, sparsity: float, slice_cols: int | None = None, levels: int | None = None
) -> Streams:
    """That of one sparsity."""
    return Streams(int(chosen_streams(M, K, sparsity, slice_cols, levels)))


def longest_nested(slice_cols: int) -> int:
    """Bytes of the longest nested chunk of which two for each warp fit beside 16 columns of B."""
    B = -(-slice_cols // 32) * 32 * 16 * 2 + ZEROS
    return (BESIDE_16 - B) // RINGS // STAGE_LINE * STAGE_LINE - BEFORE_CHUNK


def check_kind(streams: str | None, levels: int | None) -> Streams | None:
    """The streams that options of `ZeroRow24.encode` name, if any; raises ValueError otherwise."""
    if streams is None:
        return None
    found = Streams.named(streams)
    if levels and not has_levels(found):
        raise ValueError(f"levels={levels} with streams={streams!r}; allowed: None, 0")
    return found


def has_levels(streams: Streams) -> bool:
    """Whether chunks of level 1 may stand beside regular ones."""
    return streams in (Streams.PACKED, Streams.PAIRS)


def piece_cols(streams: Streams | bool) -> int:
    """Columns of a piece of a chunk."""
    return NESTED_COLS if streams == Streams.NESTED else COLS


def whole_pieces(cols: int, streams: Streams | bool = Streams.PAIRS) -> int:
    """`cols`, rounded up to a multiple of a piece's columns."""
    piece = piece_cols(streams)
    return -(-cols // piece) * piece


def list_bytes(streams: Streams | bool) -> int:
    """Of an extra chunk: two bytes for each column of four tiles, and for each row of zeros."""
    return 4 * piece_cols(streams) // 3 * 4 * 2


def width_of(streams: Streams | bool) -> int:
    """Columns of a regular chunk."""
    return PIECES[Streams(streams)] * piece_cols(streams)


def header_bytes(streams: Streams | bool) -> int:
    """Bytes of a chunk before its values, its list, or its second piece's metadata."""
    return METADATA_BYTES[streams] + STARTS_BYTES
