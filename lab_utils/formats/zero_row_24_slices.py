"""How zero-row 2:4 cuts A: slices of K, blocks of 64 rows of a slice, chunks of 48 columns."""

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24 import COLS, ROWS, slice_columns, whole_chunks
from lab_utils.formats.checks import offsets_from_counts

TILES = 4  # of a chunk, one below the other
MOST_COLS = 65520  # of a slice: its columns are listed in 16 bits, and 65535 is no column


def checked_slice(slice_cols: int | None, K: int) -> int:
    """Columns of a slice of K; raises ValueError where `slice_cols` are none."""
    if slice_cols is None:
        return slice_columns(K)
    whole = isinstance(slice_cols, int) and slice_cols % COLS == 0
    if not whole or not 0 < slice_cols <= MOST_COLS:
        raise ValueError(
            f"slice_cols={slice_cols!r}; allowed: None, multiples of {COLS} up to {MOST_COLS}"
        )
    return min(slice_cols, whole_chunks(K))


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
