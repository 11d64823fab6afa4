"""Who multiplies what of zero_row_24: equal costs for all warps of the blocks that have a slice.

A warp takes its time for a chunk's bytes and, beside other warps, for its instructions, which are
the same for chunks of all sizes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24 import ROWS, Streams
from lab_utils.backends.remembered import remembered
from lab_utils.formats import ZeroRow24
from lab_utils.formats.chunks import START_BYTES
from lab_utils.formats.zero_row_24_slices import fixed_chunks

# Bytes that a piece of 64 x 48, or 64 x 72, is worth, whatever it has, and what an extra chunk, of
# one piece, is beyond that: fitted on an H200, where a warp with twice as many chunks in the same
# bytes ended up to 7 us after the others. Of sixes, whose other pieces take less, an extra one is
# worth more than two of them.
SHARE_OF_PIECE = dict.fromkeys(Streams, 30_000) | {Streams.NESTED: 45_000}
SHARE_OF_EXTRA = dict.fromkeys(Streams, 10_000) | {Streams.SIXES: 40_000}
STARTS = 8  # of a share's first copies, which it says


def row_blocks_of(A: ZeroRow24) -> int:
    """Rows of chunks."""
    return -(-A.shape[0] // ROWS)


class Shares(NamedTuple):
    """Who multiplies what (`WarpShare` of kernels/spmm/hopper.cuh), on A's device.

    `shares` int32 [warps, 16]: first and last chunk, the block (64 rows of a slice) of the first
    one, its segment, where the block's chunks begin and end, where the next block's end, whose sums
    are merged with its last ones, and where the first eight copies begin. `segments` int32
    [blocks + 1]: first segment of each block.
    """

    shares: Tensor
    segments: Tensor


def share_out(A: ZeroRow24, workers: int, copy: int = 1, merging: int = 1) -> Shares:
    """The chunks of each slice in `workers` shares of equal costs, as nearly as chunks allow.

    `copy`: chunks that a copy takes along. `merging`: so many workers, one after the other, merge
    the sums of a block that they end with.
    """
    return remembered(A, (workers, copy, merging), lambda: _share_out(A, workers, copy, merging))


def _share_out(A: ZeroRow24, workers: int, copy: int, merging: int) -> Shares:
    starts, first = A.arrays["chunk_start"].long(), A.arrays["first_chunk"].long()
    rows, blocks = row_blocks_of(A), first.numel() - 1
    costs = _costs(A)
    ends = costs[first[::rows]]  # [slices + 1]
    part = torch.arange(workers + 1, device=starts.device)
    aims = ends[:-1, None] + ends.diff()[:, None] * part // workers  # [slices, workers + 1]
    bounds = torch.searchsorted(costs, aims)
    low, high = (side.contiguous().flatten() for side in (bounds[:, :-1], bounds[:, 1:]))

    def block_of(chunk: Tensor) -> Tensor:
        return (torch.searchsorted(first, chunk, right=True) - 1).clamp(0, blocks - 1)

    block, last, has = block_of(low), block_of(high - 1), (high > low).long()
    leads, merge = _merge(last, has, merging)
    written = has * (last - block) + leads  # segments that each worker writes, or its team does
    segment = written.cumsum(0) - written - (written == 0).long()
    counts = torch.zeros(blocks + 1, dtype=torch.long, device=starts.device)
    counts = counts.index_add(0, block, has).index_add(0, last, -has).cumsum(0)
    counts = counts[:-1].index_add(0, last, leads)  # segments of each block
    segments = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int()
    edges = first[(block[:, None] + torch.arange(3, device=first.device)).clamp(max=blocks)]
    copies = low[:, None] + copy * torch.arange(STARTS, device=starts.device)
    whose = torch.stack([low, high, block, segment], 1)
    places = starts[copies.minimum(high[:, None])]
    shares = torch.cat([whose, edges, merge[:, None], places], 1)
    return Shares(shares.int().contiguous(), segments)


def _costs(A: ZeroRow24) -> Tensor:
    """What chunks before each one cost together, and at last all: int64 [chunks + 1]."""
    starts, first = A.arrays["chunk_start"].long(), A.arrays["first_chunk"].long()
    fixed = fixed_chunks(*A.shape, A.slice_cols, A.levels, A.streams, A.device)
    extra = first.diff() - fixed  # of each block
    block = torch.arange(extra.numel(), device=A.device).repeat_interleave(first.diff())
    is_extra = torch.arange(block.numel(), device=A.device) >= (first[1:] - extra)[block]
    costs = START_BYTES * starts.diff() + SHARE_OF_PIECE[A.streams] * A.pieces
    costs += SHARE_OF_EXTRA[A.streams] * is_extra
    return torch.nn.functional.pad(costs.cumsum(0), (1, 0))


def _merge(last: Tensor, has: Tensor, merging: int) -> tuple[Tensor, Tensor]:
    """Which workers lead, and what each knows of its team (`Merged` of hopper_segments.cuh).

    A team are the workers of a thread block, `merging` of them, that end with the same block. `has`
    int64 [workers]: 1 where a worker has chunks; `last`: the block that it ends with.
    """
    worker = torch.arange(last.numel(), device=last.device)
    latest = torch.where(has > 0, worker, -1).cummax(0).values  # with chunks, at or before each
    before = torch.nn.functional.pad(latest[:-1], (1, 0), value=-1)
    same = (worker // merging == before // merging) & (last == last[before]) & (before >= 0)
    leads = has * (~same).long()
    leader = torch.where(leads > 0, worker, -1).cummax(0).values.clamp(min=0)
    members = torch.zeros_like(worker).index_add(0, leader, has)[leader]
    end = torch.zeros_like(worker).scatter_reduce(0, leader, worker * has, "amax")[leader]
    rank = has.cumsum(0) - has.cumsum(0)[leader]
    span = (end - leader + 1) * (worker <= end)
    numbers = leader % merging | span << 8 | has * (rank << 16 | members << 24)
    return leads, torch.where(span > 0, numbers, 0)
