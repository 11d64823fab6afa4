"""How zero-row 2:4 cuts A: slices of K, blocks of 64 rows of a slice, chunks, their pieces."""

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24 import (
    LEVEL_COLS,
    PIECES,
    ROWS,
    Streams,
    piece_cols,
    width_of,
)
from lab_utils.formats.checks import offsets_from_counts

TILES = 4  # of a piece, one below the other
MOST_COLS = 65520  # of a slice: its columns are listed in 16 bits, and 65535 is no column


def tiles_of(M: int, K: int, slice_cols: int) -> int:
    """Tiles of 16 rows of a slice, four for each block."""
    return TILES * -(-K // slice_cols) * -(-M // ROWS)


def queue_capacity(slice_cols: int, streams: Streams) -> int:
    """Words of the queue of a tile (kernels/cpu/encode/zero_row_24.h)."""
    return 2 * slice_cols if streams == Streams.SIXES else slice_cols // 2


def columns_of_slices(K: int, slice_cols: int) -> Tensor:
    """Columns of each slice, int64 [slices] on the host."""
    ends = torch.arange(slice_cols, K + slice_cols, slice_cols).clamp(max=K)
    return ends.diff(prepend=ends.new_zeros(1))


def fixed_in_slices(K: int, slice_cols: int, levels: int, streams: Streams) -> Tensor:
    """Chunks of a block of each slice that are not extra, int64 [slices] on the host."""
    cols = columns_of_slices(K, slice_cols)
    regular, level = ((cols + n - 1) // n for n in (width_of(streams), LEVEL_COLS))
    return regular + levels * level


def fixed_chunks(
    M: int, K: int, slice_cols: int, levels: int, streams: Streams, device: torch.device
) -> Tensor:
    """Chunks of each block that are not extra, int64 [slices * row blocks]."""
    fixed = fixed_in_slices(K, slice_cols, levels, streams)
    return fixed.to(device).repeat_interleave(-(-M // ROWS))


def pieces_of_chunks(first_chunk: Tensor, K: int, slice_cols: int, streams: Streams) -> Tensor:
    """Pieces of `piece_cols` columns in each chunk, int64 [chunks]: of sixes two, but in some.

    Extra chunks have one, as has the last regular one of slices with an odd number of pieces.
    """
    first, most = first_chunk.long(), PIECES[streams]
    cols = columns_of_slices(K, slice_cols).to(first.device)
    each = piece_cols(streams)
    whole = (cols + each - 1) // each // most  # chunks of a block that have the most
    of_blocks = whole.repeat_interleave((first.numel() - 1) // cols.numel())
    of_chunks = (first[:-1] + of_blocks).repeat_interleave(first.diff())
    is_whole = torch.arange(int(first[-1]), device=first.device) < of_chunks
    return 1 + (most - 1) * is_whole.long()


def extra_chunks(queued: Tensor, streams: Streams) -> Tensor:
    """Extra chunks of each block; `queued` [tiles]: columns for them."""
    each = piece_cols(streams)
    return (queued.view(-1, TILES).amax(1) + each - 1) // each


def first_chunks(
    queued: Tensor, M: int, K: int, slice_cols: int, levels: int, streams: Streams
) -> Tensor:
    """First chunk of each block, int32 [blocks + 1]; `queued` [tiles]: columns for extra chunks."""
    fixed = fixed_chunks(M, K, slice_cols, levels, streams, queued.device)
    return offsets_from_counts(fixed + extra_chunks(queued, streams), "chunks of A")
