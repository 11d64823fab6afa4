"""How A becomes zero-row 2:4, in four passes: queue, send, place and pack of kernels/*/encode."""

from typing import NamedTuple

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24 import (
    COLS,
    ROWS,
    Streams,
    has_levels,
    longest_nested,
    piece_cols,
    slice_columns,
    streams_of,
    whole_pieces,
)
from lab_utils.analysis.zero_row_24_expected import cost
from lab_utils.analysis.zero_row_24_padding import padding_of_weight
from lab_utils.formats import native
from lab_utils.formats.checks import offsets_from_counts
from lab_utils.formats.chunks import START_BYTES
from lab_utils.formats.zero_row_24_chunks import EXPONENT
from lab_utils.formats.zero_row_24_slices import (
    MOST_COLS,
    TILES,
    extra_chunks,
    first_chunks,
    fixed_in_slices,
    queue_capacity,
    tiles_of,
)

STREAMS = 8 * TILES  # of a chunk
PLAIN_ORDER, REACH, MOST_REACH = -1, 8, 32  # bytes


class Queues(NamedTuple):
    """What one pass over A finds: the columns for extra chunks, and what else encoding depends on.

    words int32 [tiles * `queue_capacity`], of which lengths int32 [tiles] are in use; nnz int32
    [tiles]: non-zeros; nonfinite int32 [1]: 1 if a weight is infinite or NaN.
    """

    words: Tensor
    lengths: Tensor
    nnz: Tensor
    nonfinite: Tensor

    @classmethod
    def of(cls, dense: Tensor, slice_cols: int, levels: int, streams: Streams) -> "Queues":
        M, K = dense.shape
        tiles = tiles_of(M, K, slice_cols)
        words = dense.new_empty(tiles * queue_capacity(slice_cols, streams), dtype=torch.int32)
        lengths, nnz = (dense.new_empty(tiles, dtype=torch.int32) for _ in range(2))
        queues = cls(words, lengths, nnz, lengths.new_zeros(1))
        cut = (dense, M, K, slice_cols, levels, int(streams))
        native.call("lscd_zero_row_24_queue", *cut, EXPONENT[dense.dtype], *queues)
        return queues


class Choice(NamedTuple):
    """What an encoding is made of, and the queues of that."""

    slice_cols: int
    streams: Streams
    levels: int
    queues: Queues


def choose(
    dense: Tensor, slice_cols: int | None, streams: Streams | None, levels: int | None
) -> Choice:
    """Streams, levels and columns of a slice, as far as they are not given."""
    M, K = dense.shape
    given, streams = streams, Streams.PACKED if streams is None else streams
    cols = checked_slice(slice_cols, M, K, streams)
    queues = Queues.of(dense, cols, levels or 0, streams)
    if given is None:
        sparsity = 1 - int(queues.nnz.sum()) / dense.numel()
        streams = streams_of(M, K, sparsity, slice_cols, levels)
        cols = checked_slice(slice_cols, M, K, streams)
        if not has_levels(streams):  # what goes to extra chunks is of its kind
            queues = Queues.of(dense, cols, 0, streams)
    if not has_levels(streams):
        return Choice(cols, streams, 0, queues)
    if levels is None:
        levels, queues = cheaper(dense, cols, streams, queues)
    return Choice(cols, streams, levels, queues)


def cheaper(
    dense: Tensor, slice_cols: int, streams: Streams, without: Queues
) -> tuple[int, Queues]:
    """Levels, and their queues: 1 where chunks cost less then (`zero_row_24_expected.cost`).

    `without` are the queues of levels = 0, whose extra chunks are known; A is read once more only
    where they cost more than chunks of level 1 do. Zeros beside lone values are those expected of
    a random mask with as many weights.
    """
    M, K = dense.shape
    density = int(without.nnz.sum()) / dense.numel()
    padding = [M * K * padding_of_weight(density, levels) if streams else 0 for levels in (0, 1)]

    def costs(levels: int, extra: int) -> float:
        fixed = -(-M // ROWS) * int(fixed_in_slices(K, slice_cols, levels, streams).sum())
        return cost(fixed + extra, extra, padding[levels], streams)

    lists = costs(0, int(extra_chunks(without.lengths, streams).sum()))
    if lists <= costs(1, 0):
        return 0, without
    queues = Queues.of(dense, slice_cols, 1, streams)
    level = costs(1, int(extra_chunks(queues.lengths, streams).sum()))
    return (1, queues) if level < lists else (0, without)


def encoded(
    dense: Tensor, slice_cols: int | None, streams: Streams | None, levels: int | None, reach: int
) -> tuple[Choice, dict[str, Tensor], int]:
    """A choice, and what `pack` makes of it: pairs where nested chunks are too long, unless given.

    So they are where weights stand close to each other, whatever the sparsity of A.
    """
    choice = choose(dense, slice_cols, streams, levels)
    arrays, largest = pack(dense, choice, reach)
    nested = streams is None and choice.streams == Streams.NESTED
    if nested and largest > longest_nested(choice.slice_cols):
        return encoded(dense, slice_cols, Streams.PAIRS, levels, reach)
    return choice, arrays, largest


def pack(dense: Tensor, choice: Choice, reach: int) -> tuple[dict[str, Tensor], int]:
    """The arrays of the encoding but for its geometry, and the bytes of its largest chunk."""
    M, K = dense.shape
    slice_cols, streams, levels, queues = choice
    first_chunk = first_chunks(queues.lengths, M, K, slice_cols, levels, streams)
    chunks = int(first_chunk[-1])
    sent = sent_to_level(dense, slice_cols, levels, streams)
    plan = (dense, M, K, slice_cols, levels, int(streams), *queues[:2], first_chunk, chunks, sent)
    starts = dense.new_empty(STREAMS * chunks, dtype=torch.int16)
    sizes = dense.new_empty(chunks, dtype=torch.int32)
    native.call("lscd_zero_row_24_place", *plan, reach, starts, sizes)
    chunk_start = offsets_from_counts(sizes, f"units of {START_BYTES} bytes of A's chunks")
    data = dense.new_empty(START_BYTES * int(chunk_start[-1]), dtype=torch.uint8)
    largest = START_BYTES * int(sizes.max())
    native.call("lscd_zero_row_24_pack", *plan, largest, starts, chunk_start, data)
    return {"data": data, "chunk_start": chunk_start, "first_chunk": first_chunk}, largest


def sent_to_level(dense: Tensor, slice_cols: int, levels: int, streams: Streams) -> Tensor:
    """Which middle weights regular chunks of pairs send to level 1, int32 [chunks * 32].

    Empty for other streams, of which only full groups send theirs, and without a level 1.
    """
    M, K = dense.shape
    sends = levels and streams == Streams.PAIRS
    chunks = tiles_of(M, K, slice_cols) // TILES * (slice_cols // COLS) * sends
    sent = dense.new_empty(chunks * STREAMS, dtype=torch.int32)
    if sends:
        native.call("lscd_zero_row_24_send", dense, M, K, slice_cols, sent)
    return sent


def checked_slice(slice_cols: int | None, M: int, K: int, streams: Streams) -> int:
    """Columns of a slice of A [M, K]; raises ValueError where `slice_cols` are none."""
    if slice_cols is None:
        return slice_columns(M, K, streams)
    piece = piece_cols(streams)
    whole = isinstance(slice_cols, int) and slice_cols % piece == 0
    if not whole or not 0 < slice_cols <= MOST_COLS:
        others = "" if streams == Streams.NESTED else "; of 72 with streams='nested'"
        raise ValueError(
            f"slice_cols={slice_cols!r}; allowed: None, "
            f"multiples of {piece} up to {MOST_COLS}{others}"
        )
    return min(slice_cols, whole_pieces(K, streams))


def check_levels(levels: int | None) -> None:
    """Raise ValueError for levels that no encoder knows."""
    if not (levels is None or (type(levels) is int and levels in (0, 1))):
        raise ValueError(f"levels={levels!r}; allowed: None, 0, 1")


def check_reach(reach: int) -> None:
    """Raise ValueError for bytes that no encoder may skip to place a stream."""
    if not isinstance(reach, int) or not PLAIN_ORDER <= reach <= MOST_REACH:
        raise ValueError(f"reach={reach!r}; allowed: {PLAIN_ORDER} to {MOST_REACH} bytes")
