"""Launches of kernels/spmm/hopper_mma.cu, which multiplies zero_row_24 on sm_90.

A thread block holds a slice of B in shared memory beside a ring of bulk copies for each warp. The
chunks of A's slice are cut into shares of equal costs for all warps of the blocks that have it.
"""

import ctypes
from dataclasses import dataclass, replace

from lab_utils.analysis.zero_row_24 import LEVEL_COLS, ROWS, Streams, width_of
from lab_utils.backends.chunk_shares import row_blocks_of, share_out
from lab_utils.backends.launch import Launch, Place, Selection, unmoved
from lab_utils.backends.problem import Problem, product
from lab_utils.formats import ZeroRow24

FORMAT = ZeroRow24.name
INSTRUCTION = "mma"
READ = ("data", "chunk_start", "first_chunk")  # A[0] to A[2] of a problem
EPILOGUE = ("bias", "relu")  # fields of a problem
# By the columns of a block: what their registers allow, and of nested chunks shared memory.
WARPS = {8: 16, 16: 16, 32: 12, 64: 8}
WARPS_OF_NESTED = WARPS | {16: 12}
DOCUMENTED_N = 8  # columns of a block that only uses what PTX promises of metadata

# Bytes of a block's shared memory: at most, and before B, where mbarriers are.
SHARED_BYTES, HEAD_BYTES = 227 * 1024, 1024
# Of these, what stays free for so many blocks of add_segments, which wait beside one of a product:
# 1 KB each for CUDA and 8 bytes for each slice, up to 64 of two blocks and 128 of one.
SUMS_BYTES = {2: 3 * 1024, 1: 2 * 1024, 0: 0}
MOST_SLICES = 48 * 1024 // 8  # whose bounds add_segments has in shared memory
MOST_COLUMNS = 4 * 65535  # of C: add_segments has a row of its grid for each four, or eight
# Copies under way in a ring. More of them keep memory no busier, and are in the way of what is
# needed first.
MOST_STAGES = 3
MERGES, MERGE_PAIR_BYTES = 16, 544  # columns, and bytes of two, if warps add sums in shared memory
PROBES = 4 * 64  # results of the self-test: kernels/spmm/hopper_select.cu
SELECTIONS = {FORMAT: Selection("mma.sp", "lscd_cuda_select", PROBES, documented=True)}
LINE, CHUNK_ALIGN = 128, 32  # bytes: of memory, and where chunks begin in it
ZERO_BYTES = 384  # of zeros, before each eight columns of B that nested chunks read
# Where chunks of pairs are small and blocks narrow, a copy takes two along, if so many copies fit.
SMALL_CHUNK, COPIES_OF_TWO, ENOUGH_STAGES = 2048, 16, 3


class HopperProblem(Problem):
    """`HopperProblem` of kernels/spmm/hopper.cuh."""

    __slots__ = ()
    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in (
                "slice_cols", "slices", "row_blocks", "levels", "kind", "block_n", "warps",
                "blocks_per_slice", "copy", "stages", "stage_bytes", "most_segments",
            )
        ),
        ("shares", ctypes.c_void_p),
        ("segments", ctypes.c_void_p),
        ("documented", ctypes.c_int32),
        ("relu", ctypes.c_int32),
        ("bias", ctypes.c_void_p),
    )  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a thread block is laid out: columns of C, and a ring of copies for each of its warps."""

    block_n: int
    streams: Streams
    dense_rows: int  # of B, in shared memory
    copy: int  # chunks that a copy takes along
    stage_bytes: int
    waiting: int  # blocks of add_segments beside one of the product
    blocks: int = 1  # that share a slice
    documented: bool = False  # whether metadata is only what PTX promises to select

    @property
    def warps(self) -> int:
        return (WARPS_OF_NESTED if self.streams == Streams.NESTED else WARPS)[self.block_n]

    @property
    def dense_bytes(self) -> int:
        """Of the slice of B."""
        further = self.block_n // 8 - 1 if self.streams == Streams.NESTED else 0
        return self.dense_rows * self.block_n * 2 + further * ZERO_BYTES

    @property
    def stages(self) -> int:
        """Copies under way in a ring; 0 where not even one fits."""
        room = SHARED_BYTES - SUMS_BYTES[self.waiting] - HEAD_BYTES - self.dense_bytes
        return max(0, min(MOST_STAGES, room // self.stage_bytes // self.warps))

    @property
    def merging(self) -> int:
        """Warps that add up in shared memory what they have of the same 64 rows; 1: none do."""
        fits = self.stages * self.stage_bytes >= self.block_n // 2 * MERGE_PAIR_BYTES
        return self.warps if self.block_n <= MERGES and fits else 1

    @property
    def shared_bytes(self) -> int:
        return HEAD_BYTES + self.dense_bytes + self.warps * self.stages * self.stage_bytes


def layout_of(
    A: ZeroRow24,
    N: int,
    multiprocessors: int = 1,
    split_k: float | None = None,
    documented: bool = False,
) -> Layout:
    """A thread block on each multiprocessor, or `split_k` warps for a row of chunks.

    Blocks are the widest for N columns whose slice of B leaves room for rings; DOCUMENTED_N columns
    where only `documented` metadata selects. Raises RuntimeError where the slices of A are too long
    for any.
    """
    layout = _widest(A, DOCUMENTED_N if documented else N, documented)
    if split_k is None:
        blocks = multiprocessors // slices_of(A)
    else:
        blocks = round(split_k * row_blocks_of(A) / (slices_of(A) * layout.warps))
    return replace(layout, blocks=max(1, blocks), documented=documented)


def _widest(A: ZeroRow24, N: int, one_chunk: bool) -> Layout:
    widest = min((width for width in WARPS if width >= N), default=max(WARPS))
    widths = [width for width in sorted(WARPS, reverse=True) if width <= widest]
    mean = A.arrays["data"].numel() / chunks_of(A)
    small = not one_chunk and A.streams == Streams.PAIRS and mean <= SMALL_CHUNK
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
    stage = stage_bytes(begins + copy * A.largest_chunk)
    waiting = waiting_beside(block_n, A.streams)
    return Layout(block_n, A.streams, dense_rows(A), copy, stage, waiting)


def waiting_beside(block_n: int, streams: Streams) -> int:
    """Blocks of add_segments for which a product leaves registers (kernels/spmm/hopper.cuh)."""
    if block_n > MERGES:
        return 0
    return 2 if block_n == 8 or streams in (Streams.SIXES, Streams.NESTED) else 1


def dense_rows(A: ZeroRow24) -> int:
    """Rows of B that chunks of a slice reach, and pieces of 32 rows that bring them."""
    reached = -(-A.slice_cols // LEVEL_COLS) * LEVEL_COLS if A.levels else A.slice_cols
    return -(-reached // 32) * 32


def stage_bytes(copied: int) -> int:
    """Of a stage for so many bytes: stages begin with lines."""
    return -(-copied // LINE) * LINE


def chunks_of(A: ZeroRow24) -> int:
    return A.arrays["chunk_start"].numel() - 1


def slices_of(A: ZeroRow24) -> int:
    return -(-A.shape[1] // A.slice_cols)


def split_k_of(A: ZeroRow24, layout: Layout) -> float:
    """Warps for each row of chunks."""
    return slices_of(A) * layout.blocks * layout.warps / row_blocks_of(A)


def launch_of(A: ZeroRow24, N: int, layout: Layout, place: Place = unmoved) -> Launch:
    """A launch, but for B, C and scratch memory; it reads what `place` makes of its arrays.

    Raises ValueError for more columns, and more slices, than what adds up can have.
    """
    if N > MOST_COLUMNS:
        raise ValueError(f"N={N}; allowed: 1 to {MOST_COLUMNS} where A is decoded in the kernel")
    if slices_of(A) > MOST_SLICES:
        found = f"A has {slices_of(A)} slices of {A.slice_cols} columns"
        raise ValueError(f"{found}; allowed: {MOST_SLICES}, by a larger slice_cols")
    shares = share_out(A, layout.blocks * layout.warps, layout.copy, layout.merging)
    read = {name: A.arrays[name] for name in READ} | shares._asdict()
    arrays = {name: place(array) for name, array in read.items()}
    sums = sums_of(A, N, layout)
    problem = HopperProblem(
        **product(A, N, (arrays[name] for name in READ)),
        slice_cols=A.slice_cols,
        slices=slices_of(A),
        row_blocks=row_blocks_of(A),
        levels=A.levels,
        kind=int(A.streams),
        documented=int(layout.documented),
        block_n=layout.block_n,
        warps=layout.warps,
        blocks_per_slice=layout.blocks,
        copy=layout.copy,
        stages=layout.stages,
        stage_bytes=layout.stage_bytes,
        most_segments=sums[1],
        shares=arrays["shares"].data_ptr(),
        segments=arrays["segments"].data_ptr(),
    )
    return Launch(("lscd_cuda_hopper",), problem, sums, arrays)


def sums_of(A: ZeroRow24, N: int, layout: Layout) -> tuple[int, ...]:
    """Shape of a launch's partial sums: a segment more than blocks for each warp, at most."""
    most = slices_of(A) * (layout.blocks * layout.warps + row_blocks_of(A))
    return -(-N // layout.block_n), most, layout.block_n, ROWS


def choices(A: ZeroRow24, N: int, layout: Layout) -> dict[str, str]:
    """What `explain` says of a launch."""
    slices, chunks = slices_of(A), chunks_of(A)
    warps, passes = slices * layout.blocks * layout.warps, -(-N // layout.block_n)
    streams = {
        Streams.PACKED: "packed, two loads of 16 bits each",
        Streams.PAIRS: "pairs, a load of 32 bits each",
        Streams.SIXES: "pairs of six columns, a load of 32 bits for both steps",
        Streams.NESTED: "pairs, a load of 32 bits each, and level 1 in the chunk, 16 bits each",
    }[A.streams]
    return {
        "blocks": f"{slices * layout.blocks} of {32 * layout.warps} threads, "
        f"{layout.shared_bytes / 1024:.0f} KB shared memory, {layout.dense_bytes / 1024:.0f} of B",
        "slices": f"{slices} of K, {A.slice_cols} columns each (as A was encoded), "
        f"{layout.blocks} blocks for each",
        "columns": f"{passes} x {layout.block_n} of C; A is read {passes} times"
        if passes > 1
        else f"{layout.block_n} of C at once",
        "shares": f"{warps} warps, {chunks / warps:.1f} chunks each: equal costs; "
        f"a chunk has up to {ROWS} x {width_of(A.streams)} weights",
        "ring": f"{layout.stages} copies of {layout.copy} chunks under way in each warp",
        "values": f"{streams}; a row of zeros for slots that are not in use"
        + "; only metadata that PTX promises to select" * layout.documented,
    }
