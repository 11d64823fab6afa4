"""Who multiplies what of a matrix in strips: equal costs for all thread blocks of hopper_wgmma.

A row block has a strip of 16 rows for each warp of a thread block, a round 192 or 256 columns.
Thread blocks get whole row blocks first, then rounds of the row blocks that are left: their sums
are added up in the end. A round costs bytes and the time of its products, whose number is the same
in all rounds; to come from one row block to the next costs time as well.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lab_utils.backends.remembered import remembered
from lab_utils.formats import Lane24Strips, ZeroRow24Strips
from lab_utils.formats.chunks import START_BYTES

Strips = ZeroRow24Strips | Lane24Strips

STRIP_ROWS = 16
# Bytes that a chunk's products and instructions are worth, beside its own: fitted on an H200, where
# rounds of level 1 have half the bytes of others, and take nearly as long.
SHARE_OF_CHUNK = 9000
# Of a mean round, that beginning with a row block is worth: sums that are stored once more, and a
# loop that is begun again.
SHARE_OF_SEGMENT = 0.5
# Cost, in mean chunks, of a strip that the last row block lacks: with fewer warps its rounds take
# nearly as long.
SHARE_OF_NO_STRIP = 0.7


def row_blocks_of(A: Strips, warps: int) -> int:
    """For thread blocks of so many warps."""
    return -(-A.strips // warps)


class Shares(NamedTuple):
    """Who multiplies what (kernels/spmm/hopper_wgmma.cuh), on A's device.

    `segments` int32 [S, 4]: row block, first and last round, slot of the partial sums or -1; a
    thread block's behind each other, from `first_segment` int32 [blocks + 1] on. `shared` int32
    [R, 4]: row blocks with several segments, and their first and last slot.
    """

    segments: Tensor
    first_segment: Tensor
    shared: Tensor

    @property
    def slots(self) -> int:
        return int(self.shared[-1, 2]) if self.shared.numel() else 0


def share_out(A: Strips, blocks: int, warps: int) -> tuple[int, Shares]:
    """The chunks of A in equal costs for `blocks` of `warps` each; how many slots they need."""

    def find() -> tuple[int, Shares]:
        shares = _share_out(A, blocks, warps)
        return shares.slots, Shares(*(array.int().to(A.device) for array in shares))

    return remembered(A, (blocks, warps), find)


def _share_out(A: Strips, blocks: int, warps: int) -> Shares:
    """Shares, as int64 on the host."""
    costs = _costs(A, warps)  # [row blocks, rounds]
    owner = _whole_row_blocks(costs.sum(1).tolist(), blocks)
    own, left = (owner >= 0).nonzero()[:, 0], (owner < 0).nonzero()[:, 0]
    free = torch.full((blocks,), costs.sum() / blocks, dtype=torch.float64)
    free.index_add_(0, owner[own], -costs[own].sum(1).double())
    block, parts, shared = _split(costs[left], free)
    parts[:, 0], shared[:, 0] = left[parts[:, 0]], left[shared[:, 0]]
    whole = torch.stack([own, 0 * own, 0 * own + A.rounds, 0 * own - 1], 1)
    whose = torch.cat([block, owner[own]])
    order = whose.sort(stable=True).indices  # its parts first: then their sums are soon added up
    counts = torch.bincount(whose, minlength=blocks)
    first = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return Shares(torch.cat([parts, whole])[order].contiguous(), first, shared)


def _costs(A: Strips, warps: int) -> Tensor:
    """What each round of each row block costs, int64 [row blocks, rounds], on the host.

    Strips that the last row block lacks cost, too. The first round of a row block also bears a
    segment: whoever comes to it from the row block before begins one more. What a thread block
    begins with is not counted, all begin with something.
    """
    starts = A.arrays["chunk_start"].long()
    sizes = (START_BYTES * starts.diff() + SHARE_OF_CHUNK).view(A.strips, A.rounds)
    none = int(SHARE_OF_NO_STRIP * sizes.double().mean())
    padded = torch.nn.functional.pad(sizes, (0, 0, 0, -A.strips % warps), value=none)
    costs = padded.view(-1, warps, A.rounds).sum(1).cpu()
    costs[:, :1] += int(SHARE_OF_SEGMENT * costs.double().mean())
    return costs


def _whole_row_blocks(costs: list[int], blocks: int) -> Tensor:
    """The thread block that has each row block alone, or -1: filled up to equal parts, in order."""
    part = sum(costs) / blocks
    owner, block, free = [], 0, part
    for cost in costs:
        if free < cost <= part:
            block, free = block + 1, part
        fits = cost <= free and block < blocks
        owner.append(block if fits else -1)
        free -= cost * fits
    return torch.tensor(owner, dtype=torch.long)


def _split(costs: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row blocks `costs` [R, rounds], in order, to thread blocks by what each has `free`.

    The thread block of each part; parts [P, 4] (row block, first and last round, slot); row blocks
    in several parts [S, 4] (row block, first and last slot, 0).
    """
    rounds, rows = costs.shape[1], costs.shape[0]
    line = torch.nn.functional.pad(costs.flatten().cumsum(0), (1, 0)).double()
    aims = free.clamp(min=0).cumsum(0)
    cuts = torch.searchsorted(line, aims / aims[-1].clamp(min=1e-9) * line[-1] - 1)
    cuts[-1] = rows * rounds
    edges = torch.cat([cuts, torch.arange(rows + 1) * rounds]).unique()
    first, last = edges[:-1], edges[1:]
    row, block = first // rounds, torch.searchsorted(cuts, first, right=True)
    partial = last - first < rounds
    slot = torch.where(partial, partial.cumsum(0) - 1, -1)
    counts = torch.bincount(row[partial], minlength=rows)
    ends = counts.cumsum(0)
    several = counts.nonzero()[:, 0]
    shared = torch.stack([several, (ends - counts)[several], ends[several], 0 * several], 1)
    return block, torch.stack([row, first - row * rounds, last - row * rounds, slot], 1), shared
