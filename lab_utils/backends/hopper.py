"""Launches of kernels/spmm/hopper_mma.cu, which multiplies zero_row_24 on sm_90.

A thread block holds a slice of B in shared memory beside a ring of bulk copies for each warp. The
chunks of A's slice are cut into shares of equal bytes for all warps of the blocks that have it.
"""

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from lab_utils.backends.problem import Problem
from lab_utils.formats import ZeroRow24

FORMAT = ZeroRow24.name
READ = ("data", "chunk_start", "first_chunk")  # A[0] to A[2] of a problem
CHUNK_ROWS, CHUNK_COLS = 64, 48
WARPS = {8: 16, 16: 16, 32: 12, 64: 8}  # by the columns of a block: what their registers allow

# Bytes of a block's shared memory: at most, and before B, where mbarriers are.
SHARED_BYTES, HEAD_BYTES = 227 * 1024, 1024
MOST_STAGES, STARTS = 5, 8  # copies under way in a ring; the first ones' places, in a share
MERGES, MERGE_PITCH = 16, 68  # columns and fp32 of a column, if warps add sums in shared memory
PROBES = 4 * 64  # results of the self-test: kernels/spmm/hopper_select.cu
LINE, CHUNK_ALIGN = 128, 32  # bytes: of memory, and where chunks begin in it
# Where chunks are small and blocks narrow, a copy takes two chunks along, if so many copies fit.
SMALL_CHUNK, COPIES_OF_TWO, ENOUGH_STAGES = 2048, 16, 3
ELSEWHERE = "encode A as tca_bme, or use backend='reference'"


class HopperProblem(Problem):
    """`HopperProblem` of kernels/spmm/hopper.cuh."""

    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in (
                "slice_cols", "slices", "row_blocks", "pairs", "block_n", "warps",
                "blocks_per_slice", "copy", "stages", "stage_bytes", "most_segments",
            )
        ),
        ("shares", ctypes.c_void_p),
        ("segments", ctypes.c_void_p),
    )  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a thread block is laid out: columns of C, and a ring of copies for each of its warps."""

    block_n: int
    slice_cols: int
    copy: int  # chunks that a copy takes along
    stage_bytes: int

    @property
    def warps(self) -> int:
        return WARPS[self.block_n]

    @property
    def dense_bytes(self) -> int:
        """Of the slice of B."""
        return -(-self.slice_cols // 32) * 32 * self.block_n * 2

    @property
    def stages(self) -> int:
        """Copies under way in a ring; 0 where not even one fits."""
        room = SHARED_BYTES - HEAD_BYTES - self.dense_bytes
        return max(0, min(MOST_STAGES, room // self.stage_bytes // self.warps))

    @property
    def merging(self) -> int:
        """Warps that add up in shared memory what they have of the same 64 rows; 1: none do."""
        fits = self.stages * self.stage_bytes >= self.block_n * MERGE_PITCH * 4
        return self.warps if self.block_n <= MERGES and fits else 1

    @property
    def shared_bytes(self) -> int:
        return HEAD_BYTES + self.dense_bytes + self.warps * self.stages * self.stage_bytes


def layout_of(A: ZeroRow24, N: int) -> Layout:
    """The widest block for N columns whose slice of B leaves room for rings.

    Raises RuntimeError where the slices of A are too long for any.
    """
    widest = min((width for width in WARPS if width >= N), default=max(WARPS))
    widths = [width for width in sorted(WARPS, reverse=True) if width <= widest]
    small = A.pairs and A.arrays["data"].numel() <= SMALL_CHUNK * chunks_of(A)
    for width in widths:
        two = _layout(A, width, 2)
        if small and width <= COPIES_OF_TWO and two.stages >= ENOUGH_STAGES:
            return two
        if (one := _layout(A, width, 1)).stages > 1 or (one.stages and width == min(WARPS)):
            return one
    raise RuntimeError(
        f"A has slices of {A.slice_cols} columns and chunks of {A.largest_chunk} bytes: too much "
        f"for the {SHARED_BYTES} bytes of shared memory of a block; use a smaller slice_cols"
    )


def _layout(A: ZeroRow24, block_n: int, copy: int) -> Layout:
    begins = LINE - CHUNK_ALIGN  # at most, in a line
    return Layout(block_n, A.slice_cols, copy, stage_bytes(begins + copy * A.largest_chunk))


def stage_bytes(copied: int) -> int:
    """Of a stage for so many bytes: stages begin with lines."""
    return -(-copied // LINE) * LINE


def chunks_of(A: ZeroRow24) -> int:
    return A.arrays["chunk_start"].numel() - 1


def row_blocks_of(A: ZeroRow24) -> int:
    return -(-A.shape[0] // CHUNK_ROWS)


def slices_of(A: ZeroRow24) -> int:
    return -(-A.shape[1] // A.slice_cols)


def blocks_per_slice(
    A: ZeroRow24, layout: Layout, multiprocessors: int, split_k: float | None
) -> int:
    """Thread blocks that share a slice: one on each multiprocessor, or `split_k` warps a row."""
    if split_k is None:
        return max(1, multiprocessors // slices_of(A))
    return max(1, round(split_k * row_blocks_of(A) / (slices_of(A) * layout.warps)))


class Shares(NamedTuple):
    """Who multiplies what (`WarpShare` of kernels/spmm/hopper.cuh), on A's device.

    `shares` int32 [warps, 16]: first and last chunk, the block (64 rows of a slice) of the first
    one, its segment, where the block's chunks begin and end, where the next block's end, whose sums
    are merged with its last ones, and where the first eight copies begin. `segments` int32
    [blocks + 1]: first segment of each block.
    """

    shares: Tensor
    segments: Tensor


# By chunk_start; what a launch has found, later ones find again.
_shares: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def share_out(A: ZeroRow24, workers: int, copy: int = 1, merging: int = 1) -> Shares:
    """The chunks of each slice in `workers` shares of equal bytes, as nearly as chunks allow.

    `copy`: chunks that a copy takes along. `merging`: so many workers, one after the other, merge
    the sums of a block that they end with.
    """
    starts = A.arrays["chunk_start"]
    state = workers, copy, merging, *(A.arrays[name]._version for name in READ)
    known = _shares.setdefault(starts, {})
    if state in known:
        return known[state]
    if starts.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"the first product with a {FORMAT} encoding shares its chunks out, which a CUDA graph "
            "cannot capture: multiply once, by as many columns, before"
        )
    known[state] = _share_out(A, workers, copy, merging)
    if starts.is_cuda:  # launches on any stream read it, before the grid before them has ended
        torch.cuda.current_stream(starts.device).synchronize()
    return known[state]


def _share_out(A: ZeroRow24, workers: int, copy: int, merging: int) -> Shares:
    starts, first = A.arrays["chunk_start"].long(), A.arrays["first_chunk"].long()
    rows, blocks = row_blocks_of(A), first.numel() - 1
    ends = starts[first[::rows]]  # [slices + 1]
    part = torch.arange(workers + 1, device=starts.device)
    aims = ends[:-1, None] + ends.diff()[:, None] * part // workers  # [slices, workers + 1]
    bounds = torch.searchsorted(starts, aims)
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


def check_weights(A: ZeroRow24) -> None:
    """Raise ValueError where a weight is infinite or NaN: the kernel could multiply it by zero."""
    if A.nonfinite:
        raise ValueError(
            f"A has an infinite or NaN weight, which {FORMAT} cannot multiply; {ELSEWHERE}"
        )


def operands(A: ZeroRow24, layout: Layout, blocks: int) -> dict[str, Tensor]:
    """The arrays that a launch reads, beside B."""
    shared = share_out(A, blocks * layout.warps, layout.copy, layout.merging)
    return {name: A.arrays[name] for name in READ} | shared._asdict()


def sums_of(A: ZeroRow24, N: int, layout: Layout, blocks: int) -> tuple[int, ...]:
    """Shape of a launch's partial sums: a segment more than blocks for each warp, at most."""
    most = slices_of(A) * (blocks * layout.warps + row_blocks_of(A))
    return -(-N // layout.block_n), most, layout.block_n, CHUNK_ROWS


def problem_of(
    A: ZeroRow24, N: int, layout: Layout, blocks: int, arrays: dict[str, Tensor]
) -> HopperProblem:
    """What is launched; `arrays` are those of `operands`. B, C and the partial sums are missing."""
    addresses = [arrays[name].data_ptr() for name in READ]
    return HopperProblem(
        dtype=int(A.dtype == torch.bfloat16),
        M=A.shape[0],
        K=A.shape[1],
        N=N,
        A=(ctypes.c_void_p * 5)(*addresses),
        slice_cols=A.slice_cols,
        slices=slices_of(A),
        row_blocks=row_blocks_of(A),
        pairs=int(A.pairs),
        block_n=layout.block_n,
        warps=layout.warps,
        blocks_per_slice=blocks,
        copy=layout.copy,
        stages=layout.stages,
        stage_bytes=layout.stage_bytes,
        most_segments=sums_of(A, N, layout, blocks)[1],
        shares=arrays["shares"].data_ptr(),
        segments=arrays["segments"].data_ptr(),
    )


def choices(A: ZeroRow24, N: int, layout: Layout, blocks: int) -> dict[str, str]:
    """What `explain` says of a launch."""
    slices, chunks = slices_of(A), chunks_of(A)
    warps, passes = slices * blocks * layout.warps, -(-N // layout.block_n)
    streams = "pairs, a load of 32 bits each" if A.pairs else "packed, two loads of 16 bits each"
    return {
        "blocks": f"{slices * blocks} of {32 * layout.warps} threads, "
        f"{layout.shared_bytes / 1024:.0f} KB shared memory, {layout.dense_bytes / 1024:.0f} of B",
        "slices": f"{slices} of K, {A.slice_cols} columns each (as A was encoded), "
        f"{blocks} blocks for each",
        "columns": f"{passes} x {layout.block_n} of C; A is read {passes} times"
        if passes > 1
        else f"{layout.block_n} of C at once",
        "shares": f"{warps} warps, {chunks / warps:.1f} chunks each: equal bytes of "
        f"{CHUNK_ROWS} x {CHUNK_COLS} weights a chunk",
        "ring": f"{layout.stages} copies of {layout.copy} chunks under way in each warp",
        "values": f"{streams}; a row of zeros for slots that are not in use",
    }
