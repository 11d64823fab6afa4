"""How zero-row 2:4 cuts A: slices of K, blocks of 64 rows of a slice, chunks of 48 columns."""

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24 import COLS, ROWS
from lab_utils.formats.checks import offsets_from_counts

TILES = 4  # of a chunk, one below the other
MOST_COLS = 65520  # of a slice: its columns are listed in 16 bits, and 65535 is no column


def tiles_of(M: int, K: int, slice_cols: int) -> int:
    """Tiles of 16 rows of a slice, four for each block."""
    return TILES * -(-K // slice_cols) * -(-M // ROWS)


def regular_chunks(M: int, K: int, slice_cols: int, device: torch.device) -> Tensor:
    """Chunks of each block that are not extra, int64 [slices * row blocks]."""
    ends = torch.arange(slice_cols, K + slice_cols, slice_cols, device=device).clamp(max=K)
    cols = ends.diff(prepend=ends.new_zeros(1))
    return ((cols + COLS - 1) // COLS).repeat_interleave(-(-M // ROWS))


def first_chunks(queued: Tensor, M: int, K: int, slice_cols: int) -> Tensor:
    """First chunk of each block, int32 [blocks + 1]; `queued` [tiles]: columns for extra chunks."""
    extra = (queued.view(-1, TILES).amax(1) + COLS - 1) // COLS
    regular = regular_chunks(M, K, slice_cols, queued.device)
    return offsets_from_counts(regular + extra, "chunks of A")
