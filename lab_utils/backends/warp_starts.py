"""What each warp of hopper_wgmma must know to begin, in one record (`WarpStart` of its sources).

A chain of loads, from a thread block's segments to where a warp's chunks begin, would take as long
as several rounds of a small matrix.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lab_utils.backends.remembered import remembered
from lab_utils.backends.row_blocks import Strips, share_out
from lab_utils.formats.chunks import START_BYTES

NUMBERS = 32  # of a record
ANY_BYTES = 2**40  # more than two chunks have
STRIP_STAGES = 2  # copies of a warp under way, at most (hopper_wgmma.cuh has it, too)


class Steps(NamedTuple):
    """The i-th rounds, or tiles, that workers of thread blocks have: int64 [workers, blocks, i].

    A worker is a warp, or the tiles of B' of its thread block. Where it has no more rounds,
    `segment` is the end of its thread block's, `round` and `last` are 0.
    """

    segment: Tensor
    round: Tensor
    last: Tensor  # of the segment
    has: Tensor  # bool


def starts_of(
    A: Strips, blocks: int, warps: int, shared_by_two: int, tiles: int, of_round: int = 1
) -> Tensor:
    """int32 [blocks, warps, 32] on A's device: of rings of chunks, and of `tiles` of B'.

    The second chunk is under way beside the first one if both have `shared_by_two` bytes or fewer;
    `of_round` tiles make a round; tiles are numbered, not rounds.
    """
    key = ("starts", blocks, warps, shared_by_two, tiles, of_round)
    of_tiles = tiles, of_round
    return remembered(A, key, lambda: _starts_of(A, blocks, warps, shared_by_two, *of_tiles))


def _starts_of(
    A: Strips, blocks: int, warps: int, shared_by_two: int, tiles: int, of_round: int
) -> Tensor:
    shares = share_out(A, blocks, warps).shares
    segments, first = shares.segments.long(), shares.first_segment.long()
    chunks, begins, ends = _chunks(A, segments, first, warps, STRIP_STAGES + 1)
    every = torch.ones(1, len(segments), dtype=torch.bool, device=A.device)
    in_tiles = segments * segments.new_tensor([1, of_round, of_round, 1])
    tile = _walk(_steps(in_tiles, first, every, 2 * tiles))
    of_warp = torch.arange(warps, device=A.device).clamp(max=tiles - 1)  # others: nobody reads it
    size = START_BYTES * (ends - begins)[..., :STRIP_STAGES].sum(-1, keepdim=True)
    both = size <= shared_by_two
    walks = _walk(chunks), begins[..., None], ends[..., None]
    numbers = [
        begins[..., :1], begins[..., 1:2] * both, ends[..., :1], ends[..., 1:2] * both,
        *(torch.where(both, walk[:, :, 2], walk[:, :, 1]) for walk in walks),
        tile[:, 0, of_warp], tile[:, 0, of_warp + tiles],
        _of_block(segments, first)[:, None].expand(-1, warps, -1),
    ]  # fmt: skip
    record = torch.cat(numbers, 2)
    return torch.nn.functional.pad(record, (0, NUMBERS - record.shape[2])).int().contiguous()


def _chunks(
    A: Strips, segments: Tensor, first: Tensor, warps: int, count: int
) -> tuple[Steps, Tensor, Tensor]:
    """The first `count` chunks of warps, numbered through A; where each begins and ends.

    The latter are in START_BYTES, int64 [blocks, warps, count], 0 where a warp has no more.
    """
    strip = segments[:, 0] * warps + torch.arange(warps, device=A.device)[:, None]
    steps = _steps(segments, first, strip < A.strips, count)
    own = strip.gather(1, steps.segment.clamp(max=len(segments) - 1).flatten(1)) * A.rounds
    before = torch.where(steps.has, own.view_as(steps.segment), 0)
    chunks = steps._replace(round=steps.round + before, last=steps.last + before)
    data = A.arrays["chunk_start"].long()
    begins, ends = (torch.where(chunks.has, data[chunks.round + i], 0) for i in range(2))
    return chunks, begins.permute(1, 0, 2), ends.permute(1, 0, 2)


def _steps(segments: Tensor, first: Tensor, has: Tensor, count: int) -> Steps:
    """The first `count` rounds of workers, `has` bool [workers, segments]."""
    rounds = has * (segments[:, 2] - segments[:, 1])
    ends = rounds.cumsum(1)  # of segments, in rounds of the worker
    limits = torch.nn.functional.pad(ends, (1, 0))[:, first]  # [workers, blocks + 1]
    wanted = limits[:, :-1, None] + torch.arange(count, device=ends.device)
    inside = wanted < limits[:, 1:, None]
    segment = torch.searchsorted(ends, wanted.flatten(1), right=True).clamp(max=len(segments) - 1)
    into = wanted - (ends - rounds).gather(1, segment).view_as(wanted)
    segment = segment.view_as(wanted)
    round, last = segments[segment, 1] + into, segments[segment, 2]
    end = first[1:, None].expand_as(segment)
    return Steps(torch.where(inside, segment, end), round * inside, last * inside, inside)


def _walk(steps: Steps) -> Tensor:
    """A `Walk` at each step, int64 [blocks, workers, i, 3]."""
    return torch.stack(steps[:3], 3).permute(1, 0, 2, 3)


def _of_block(segments: Tensor, first: Tensor) -> Tensor:
    """Of each thread block: its segments, and row block, rounds and slot of the first one."""
    row, begin, end, slot = segments[first[:-1].clamp(max=len(segments) - 1)].unbind(1)
    return torch.stack([first[:-1], first[1:], row, end - begin, slot], 1)
