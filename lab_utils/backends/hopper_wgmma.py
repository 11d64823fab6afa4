"""Launches of kernels/spmm/hopper_wgmma*.cu, which multiply three formats of strips on sm_90.

A thread block has a strip of 16 rows for each of its warps. In shared memory are a ring of chunks
of A for each warp, and one of tiles of B' for all: B as wgmma reads it, for zero_row_24_strips with
rows of zeros.
"""

import ctypes
from dataclasses import dataclass, replace

from torch import Tensor

from lab_utils.analysis import lane_24_strips
from lab_utils.analysis.zero_row_24 import TILE_ROWS as STRIP_ROWS
from lab_utils.backends import hopper
from lab_utils.backends.launch import Launch, Place, Selection, unmoved
from lab_utils.backends.problem import Problem, product
from lab_utils.backends.row_blocks import SharePlan, Strips, row_blocks_of, share_out
from lab_utils.backends.warp_starts import STRIP_STAGES, starts_of
from lab_utils.formats import BitmapStrips, Lane24Strips, ZeroRow24Strips
from lab_utils.formats.chunks import START_BYTES

FORMAT, LANES, STREAMS = ZeroRow24Strips.name, Lane24Strips.name, BitmapStrips.name
FORMATS = {  # and who multiplies them
    FORMAT: "lscd_cuda_wgmma",
    LANES: "lscd_cuda_wgmma_lanes",
    STREAMS: "lscd_cuda_wgmma_bitmap",
}
INSTRUCTION = "wgmma"
READ = ("data", "chunk_start")  # A[0] and A[1] of a problem
EPILOGUE = ("bias", "relu")  # fields of a problem
# Columns of C that a thread block has at once: with 16 warps, and with 12, which have registers.
NARROW_WIDTHS, WIDE_WIDTHS = (24, 32, 40, 48, 56, 64), (96, 128)
WIDTHS = NARROW_WIDTHS + WIDE_WIDTHS
# Of dense products alone, with 12 and 8 warps: B' comes in quarters of a round's tile. And with 12,
# where only so few have room for STRIP_STAGES copies of their largest chunks.
QUARTERED_WIDTHS, QUARTERS = (160, 192, 224, 256), 4
FEW_WIDTHS, FEW_WARPS = (32, 48, 64), 12
# Copies under way in a ring for which blocks are as narrow as they must be. To decode a bitmap for
# fewer columns costs more than to wait for its only copy: with 96 and 128 columns at .5 one pass
# took a quarter less time than two of half the width.
ENOUGH_STAGES = {FORMAT: STRIP_STAGES, LANES: STRIP_STAGES, STREAMS: 1}
NARROW = 16  # columns, which hopper.py's kernel multiplies faster

# Bytes of a block's shared memory: at most, and before the tiles of B', where mbarriers are.
SHARED_BYTES, HEAD_BYTES = hopper.SHARED_BYTES, 1024
DENSE_ROWS = 256  # of a tile of B'
MOST_TILES = 6
PROBES = len(WIDTHS) * 4 * 8 * 4  # results of the self-test: kernels/spmm/hopper_wgmma_select.cu
# All codes of metadata, and products narrower than a swizzle.
SELECTION = Selection("wgmma.sp", "lscd_cuda_wgmma_select", PROBES)


class WgmmaProblem(Problem):
    """`WgmmaProblem` of kernels/spmm/hopper_wgmma.cuh."""

    __slots__ = ()
    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in (
                "rounds", "strips", "levels", "block_n", "blocks", "warps", "slots",
                "added_rows", "stages", "stage_bytes", "tile_slots",
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("segments", "first_segment", "shared", "tiles", "starts")
        ),
        ("relu", ctypes.c_int32),
        ("bias", ctypes.c_void_p),
    )  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Thread blocks, and what of their shared memory is for B', what for the warps' rings."""

    block_n: int
    warps: int  # of a thread block
    passes: int  # over A, of block_n columns each
    blocks: int  # of a pass
    stage_bytes: int  # of one chunk of a ring

    @property
    def tile_columns(self) -> int:
        """Of a tile of B': a swizzle's of 32 or 64, or several."""
        return next(n for n in range(32, 257, 32) if self.block_n <= n)

    @property
    def tiles_of_round(self) -> int:
        """Tiles of B' for each round."""
        return QUARTERS if self.block_n in QUARTERED_WIDTHS else 1

    @property
    def least_tiles(self) -> int:
        """Of B', that are in shared memory."""
        return max(2, self.tiles_of_round)

    @property
    def row_block(self) -> int:
        """Rows of a thread block."""
        return self.warps * STRIP_ROWS

    @property
    def tile_bytes(self) -> int:
        return DENSE_ROWS // self.tiles_of_round * self.tile_columns * 2

    def room_beside(self, tiles: int) -> int:
        """Bytes of each warp's ring, beside so many tiles of B'."""
        return (SHARED_BYTES - HEAD_BYTES - tiles * self.tile_bytes) // self.warps

    @property
    def stages(self) -> int:
        """Copies under way in a ring: STRIP_STAGES, one, or 0 where not even one fits."""
        return min(STRIP_STAGES, self.room_beside(self.least_tiles) // self.stage_bytes)

    @property
    def tile_slots(self) -> int:
        """Tiles of B' in shared memory."""
        room = SHARED_BYTES - HEAD_BYTES - self.warps * self.stages * self.stage_bytes
        most = MOST_TILES if self.tiles_of_round == 1 else self.tiles_of_round
        return min(most, room // self.tile_bytes)

    @property
    def shared_bytes(self) -> int:
        rings = self.warps * self.stages * self.stage_bytes
        return HEAD_BYTES + self.tile_slots * self.tile_bytes + rings


def layout_of(A: Strips, N: int, multiprocessors: int, split_k: float | None) -> Layout:
    """A thread block on each multiprocessor, or `split_k` of them for a row block of each pass.

    Passes stand side by side, each on its part of the multiprocessors: they copy the same chunks at
    about the same time, from memory once; what is left over stays idle, up to half of a GPU where
    passes are most of its multiprocessors. Thread blocks are as wide as shared memory
    leaves room for rings of ENOUGH_STAGES.
    """
    layouts = [_layout(A, N, widths) for widths in _widths(A.name)]
    enough = (one for one in layouts if one.stages >= ENOUGH_STAGES[A.name])
    layout = next(enough, layouts[-1])
    if A.name == STREAMS and layout.block_n in NARROW_WIDTHS and layout.stages < STRIP_STAGES:
        few = _layout(A, N, FEW_WIDTHS, FEW_WARPS)
        layout = few if few.stages == STRIP_STAGES else layout
    rows = row_blocks_of(A, layout.warps)
    each = multiprocessors // layout.passes
    wanted = each if split_k is None else round(split_k * rows)
    return replace(layout, blocks=max(1, min(wanted, rows * A.rounds)))


def _widths(format: str) -> list[tuple[int, ...]]:
    """What thread blocks may have, the widest first."""
    widths = [WIDTHS, WIDTHS[:-1], NARROW_WIDTHS]
    return [WIDTHS + QUARTERED_WIDTHS, *widths] if format == STREAMS else widths


def columns_of_a_pass(N: int, widths: tuple[int, ...]) -> tuple[int, int]:
    """The narrowest of these widths that takes as few passes over A as the widest; and how many."""
    passes = -(-N // widths[-1])
    return next(width for width in widths if width * passes >= N), passes


def warps_of(block_n: int) -> int:
    """Of a thread block: as many as have registers for their sums."""
    return 16 if block_n <= NARROW_WIDTHS[-1] else 12 if block_n <= 192 else 8


def _layout(A: Strips, N: int, widths: tuple[int, ...], warps: int | None = None) -> Layout:
    """Of one thread block, in as few passes as these widths allow."""
    block_n, passes = columns_of_a_pass(N, widths)
    warps = warps or warps_of(block_n)
    layout = Layout(block_n, warps, passes, 1, hopper.stage_bytes(A.largest_copy))
    # Where that saves a second stage, stages begin anywhere in a line, and the largest chunks, too.
    tight = layout.room_beside(layout.least_tiles) // STRIP_STAGES // START_BYTES * START_BYTES
    if layout.stages < STRIP_STAGES and tight >= A.largest_copy:
        return replace(layout, stage_bytes=tight)
    return layout


def split_k_of(A: Strips, layout: Layout) -> float:
    """Thread blocks for each row block."""
    return layout.blocks / row_blocks_of(A, layout.warps)


def sums_of(A: Strips, layout: Layout) -> tuple[int, ...]:
    """Passes, slots, and numbers of 4 bytes in each: partial sums, and a flag for each warp."""
    slots = share_out(A, layout.blocks, layout.warps).slots
    return layout.passes, slots, layout.block_n * layout.row_block + layout.warps


def tiles_of(A: Strips, layout: Layout) -> tuple[int, ...]:
    """Shape of B', in words of two elements."""
    return layout.passes, A.rounds, DENSE_ROWS, layout.tile_columns // 2


def _sums(A: Strips, layout: Layout) -> str:
    """What `explain` says of row blocks that several thread blocks have."""
    plan = share_out(A, layout.blocks, layout.warps)
    if not plan.slots:
        return "of each row block in one thread block"
    owner = "the owner of a row block, who has its first rounds,"
    who = owner if plan.owners else "a kernel of its own"
    return f"partial ones in {plan.slots} slots; {who} adds them"


def far_text(A: Strips) -> str:
    """What `explain` says of chunks with more entries than rings hold."""
    few = lane_24_strips.NEAR_STEPS * lane_24_strips.PLACES
    far = A.largest_chunk > A.largest_copy
    return f", of which rings hold {few}; further ones are read from global memory" * far


def levels_of(A: Strips) -> int:
    """1 where rounds of level 1 stand between others."""
    return A.levels if isinstance(A, ZeroRow24Strips) else 0


def _problem_of(
    A: Strips, N: int, layout: Layout, arrays: dict[str, Tensor], plan: SharePlan
) -> WgmmaProblem:
    return WgmmaProblem(
        **product(A, N, (arrays[name] for name in READ)),
        rounds=A.rounds,
        strips=A.strips,
        levels=levels_of(A),
        block_n=layout.block_n,
        blocks=layout.blocks,
        warps=layout.warps,
        slots=plan.slots,
        added_rows=0 if plan.owners else arrays["shared"].shape[0],
        stages=layout.stages,
        stage_bytes=layout.stage_bytes,
        tile_slots=layout.tile_slots,
        segments=arrays["segments"].data_ptr(),
        first_segment=arrays["first_segment"].data_ptr(),
        shared=arrays["shared"].data_ptr(),
        starts=arrays["starts"].data_ptr(),
    )


def launch_of(A: Strips, N: int, layout: Layout, place: Place = unmoved) -> Launch:
    """A launch, but for B, C and scratch memory; it reads what `place` makes of its arrays."""
    plan = share_out(A, layout.blocks, layout.warps)
    tiles = layout.tile_slots, layout.tiles_of_round
    starts = starts_of(A, layout.blocks, layout.warps, layout.stages, *tiles)
    read = {name: A.arrays[name] for name in READ} | plan.shares._asdict() | {"starts": starts}
    arrays = {name: place(array) for name, array in read.items()}
    problem = _problem_of(A, N, layout, arrays, plan)
    tiles = {"tiles": tiles_of(A, layout)}
    return Launch((FORMATS[A.name],), problem, sums_of(A, layout), arrays, tiles)


def choices(A: Strips, N: int, layout: Layout) -> dict[str, str]:
    """What `explain` says of a launch."""
    rows = row_blocks_of(A, layout.warps)
    columns = f"{layout.block_n} of C at once"
    if layout.passes > 1:
        columns = f"{layout.passes} x {layout.block_n} of C, side by side, each of which reads A"
        if layout.block_n in NARROW_WIDTHS:
            columns += (
                "; wider blocks have no room for two of its largest chunks in each warp's ring"
            )
    if N <= NARROW:
        columns += f"; for {NARROW} columns and fewer, {hopper.FORMAT} is the format"
    of_passes = f"{layout.passes} x " * (layout.passes > 1)
    return {
        "blocks": f"{of_passes}{layout.blocks} of {32 * layout.warps} threads, "
        f"{layout.shared_bytes / 1024:.0f} KB shared memory, "
        f"{layout.tile_slots} tiles of B, {layout.tile_bytes // 1024} KB each",
        "columns": columns,
        "shares": f"{rows} row blocks of {layout.row_block}, {A.rounds} rounds each: "
        f"{rows * A.rounds / layout.blocks:.1f} rounds a block, in equal costs",
        "sums": _sums(A, layout),
        "ring": f"{layout.stages} chunks under way in each warp",
        "values": _values(A),
    }


def _values(A: Strips) -> str:
    """What `explain` says of where the weights of a launch stand."""
    if A.name == STREAMS:
        return "a bitmap, and a stream of values for each lane, in a bank of its own"
    levels = "chunks of their own, every fourth" if levels_of(A) else "entries of their chunks"
    groups = "of three weights" if A.name == FORMAT else "of four columns"
    return f"groups {groups} have two slots; what is left over: {levels}{far_text(A)}"
