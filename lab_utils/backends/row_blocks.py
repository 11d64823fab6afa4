"""Who multiplies what of a matrix in strips: equal costs for all thread blocks of hopper_wgmma.

A row block has a strip of 16 rows for each warp of a thread block, a round 192 or 256 columns.
A round costs bytes and the time of its products, whose number is the same in all rounds; to come
from one row block to the next costs time as well. Sums of a row block that several thread blocks
have are added up in one of two ways::

    owners     a thread block has one stretch of all rounds (of row blocks 0 to 3, 4 rounds each):
                 block 2: 0 0 0 0 1    block 1: 1 1 1 2 2    block 0: 2 2 3 3 3 3
               Who has the first rounds of a row block, comes to them last of all. It adds the sums
               of those who have the others: earlier thread blocks, which had them first of all.
    add_slots  thread blocks have whole row blocks, and before these rounds of those that are left.
               A kernel of its own adds the sums of the latter in the end.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lab_utils.backends.remembered import remembered
from lab_utils.formats import BitmapStrips, CodedStrips, Lane24Strips, ZeroRow24Strips
from lab_utils.formats.chunks import START_BYTES

Strips = ZeroRow24Strips | Lane24Strips | BitmapStrips | CodedStrips

# Bytes that a chunk's products and instructions are worth, beside its own: fitted on an H200, where
# rounds of level 1 have half the bytes of others, and take nearly as long.
SHARE_OF_CHUNK = 9000
# Of a mean round, that beginning with a row block is worth: sums that are stored once more, and a
# loop that is begun again.
SHARE_OF_SEGMENT = 0.5
# Cost, in mean chunks, of a strip that the last row block lacks: with fewer warps its rounds take
# nearly as long.
SHARE_OF_NO_STRIP = 0.7
# Thread blocks for each row block that none could have alone, up to which row blocks have owners.
# With more, an owner would wait for many that end when it does; and where few row blocks are left,
# add_slots has little to do.
BLOCKS_OF_OWNED = 2.5
# Of a mean round, by which a thread block ends before others if an owner waits for its end.
SHARE_OF_AWAITED = 0.5


def row_blocks_of(A: Strips, warps: int) -> int:
    """For thread blocks of so many warps."""
    return -(-A.strips // warps)


class Shares(NamedTuple):
    """Who multiplies what (kernels/spmm/hopper_wgmma.cuh), on A's device.

    `segments` int32 [S, 4]: row block, first and last round, slot of the partial sums, -1 or, of an
    owner, -2 - i for row i of `shared`; a thread block's behind each other, from `first_segment`
    int32 [blocks + 1] on. `shared` int32 [R, 4]: row blocks with several segments, and the first
    and last slot of these, without the owner's.
    """

    segments: Tensor
    first_segment: Tensor
    shared: Tensor


class SharePlan(NamedTuple):
    """Shares; how many slots they need; whether row blocks with several segments have owners."""

    shares: Shares
    slots: int
    owners: bool


def share_out(A: Strips, blocks: int, warps: int) -> SharePlan:
    """The chunks of A in equal costs for `blocks` of `warps` each."""

    def find() -> SharePlan:
        shares, owners = _share_out(A, blocks, warps)
        slots = int(shares.shared[-1, 2]) if shares.shared.numel() else 0
        return SharePlan(Shares(*(array.int().to(A.device) for array in shares)), slots, owners)

    return remembered(A, (blocks, warps), find)


def _share_out(A: Strips, blocks: int, warps: int) -> tuple[Shares, bool]:
    """Shares, as int64 on the host; whether there are owners."""
    costs = _costs(A, warps)  # [row blocks, rounds]
    alone = _whole_row_blocks(costs.sum(1).tolist(), blocks)
    if int((alone < 0).sum()) * BLOCKS_OF_OWNED >= blocks:
        return _owned(costs, blocks), True
    return _added(costs, blocks, alone), False


def _added(costs: Tensor, blocks: int, alone: Tensor) -> Shares:
    """Shares of whole row blocks, `alone` to a thread block or -1; add_slots adds others' parts."""
    own, left = (alone >= 0).nonzero()[:, 0], (alone < 0).nonzero()[:, 0]
    rounds = costs.shape[1]
    free = costs.new_full((blocks,), (costs.sum() / blocks).item(), dtype=torch.float64)
    free.index_add_(0, alone[own], -costs[own].sum(1).double())
    block, parts = _split(costs[left], free)
    parts[:, 0] = left[parts[:, 0]]
    slot, shared = _slots(parts, rounds)
    parts = torch.cat([parts, slot[:, None]], 1)
    whole = torch.stack([own, 0 * own, 0 * own + rounds, 0 * own - 1], 1)
    whose = torch.cat([block, alone[own]])  # its parts first: then their sums are soon added up
    return _in_order(whose, torch.cat([parts, whole]), shared, blocks)


def _owned(costs: Tensor, blocks: int) -> Shares:
    """Shares of row blocks that have owners: the thread blocks that have their first rounds.

    The last thread block has the first rounds. So whoever has later rounds of a row block, has them
    first of all, and is an earlier thread block than the owner, who waits for it.
    """
    free = costs.new_full((blocks,), (costs.sum() / blocks).item(), dtype=torch.float64)
    block, parts = _split(costs, free)
    free[_awaited(block, parts)] -= SHARE_OF_AWAITED * costs.double().mean()
    block, parts = _split(costs, free)
    slot, shared = _slots(parts, costs.shape[1], owners=True)
    return _in_order(blocks - 1 - block, torch.cat([parts, slot[:, None]], 1), shared, blocks)


def _awaited(block: Tensor, parts: Tensor) -> Tensor:
    """Thread blocks whose last part an owner waits for."""
    last = torch.nn.functional.pad(block.diff() > 0, (0, 1), value=True)
    return block[last & (parts[:, 1] > 0)]


def _in_order(block: Tensor, segments: Tensor, shared: Tensor, blocks: int) -> Shares:
    """Segments by thread block; those of one as they are."""
    order = block.sort(stable=True).indices
    first = torch.nn.functional.pad(torch.bincount(block, minlength=blocks).cumsum(0), (1, 0))
    return Shares(segments[order].contiguous(), first, shared)


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
    alone, block, free = [], 0, part
    for cost in costs:
        if free < cost <= part:
            block, free = block + 1, part
        fits = cost <= free and block < blocks
        alone.append(block if fits else -1)
        free -= cost * fits
    return torch.tensor(alone, dtype=torch.long, device="cpu")


def _split(costs: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Row blocks `costs` [R, rounds], in order, to thread blocks by what each has `free`.

    The thread block of each part; parts [P, 3]: row block, first and last round.
    """
    rounds, rows = costs.shape[1], costs.shape[0]
    line = torch.nn.functional.pad(costs.flatten().cumsum(0), (1, 0)).double()
    aims = free.clamp(min=0).cumsum(0)
    cuts = torch.searchsorted(line, aims / aims[-1].clamp(min=1e-9) * line[-1] - 1)
    cuts[-1] = rows * rounds
    edges = torch.cat([cuts, torch.arange(rows + 1, device="cpu") * rounds]).unique()
    first, last = edges[:-1], edges[1:]
    row, block = first // rounds, torch.searchsorted(cuts, first, right=True)
    return block, torch.stack([row, first - row * rounds, last - row * rounds], 1)


def _slots(parts: Tensor, rounds: int, owners: bool = False) -> tuple[Tensor, Tensor]:
    """Slots of parts, which are in order, and `shared`, as `Shares` has them."""
    row, first, last = parts.unbind(1)
    several = last - first < rounds
    owner = several & (first == 0) & owners
    stored = several & ~owner
    shared, counts = row[stored].unique(return_counts=True)
    slot = torch.where(stored, stored.cumsum(0) - 1, -1)
    slot = torch.where(owner, -2 - torch.searchsorted(shared, row.contiguous()), slot)
    ends = counts.cumsum(0)
    return slot, torch.stack([shared, ends - counts, ends, 0 * shared], 1)
