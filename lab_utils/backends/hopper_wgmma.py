"""Launches of kernels/spmm/hopper_wgmma*.cu, which multiply four formats of strips on sm_90.

A thread block has a strip of 16 rows for each of its warps; `strip_layouts` says how many, and for
how many columns of C.
"""

import ctypes

from torch import Tensor

from lab_utils.analysis import lane_24_strips
from lab_utils.backends import hopper, strip_layouts
from lab_utils.backends.launch import Launch, Place, Selection, unmoved
from lab_utils.backends.problem import Problem, product
from lab_utils.backends.row_blocks import SharePlan, Strips, row_blocks_of, share_out
from lab_utils.backends.strip_layouts import (
    ALL_WIDTHS,
    BITMAPS,
    CODES,
    DENSE_ROWS,
    FORMAT,
    LANES,
    NARROW_WIDTHS,
    Layout,
    meets_b,
)
from lab_utils.backends.warp_starts import starts_of
from lab_utils.formats import ZeroRow24Strips

FORMATS = {  # and who multiplies them
    FORMAT: "lscd_cuda_wgmma",
    LANES: "lscd_cuda_wgmma_lanes",
    BITMAPS: "lscd_cuda_wgmma_bitmap",
    CODES: "lscd_cuda_wgmma_coded",
}
WHAT_A_LANE_HAS = {
    BITMAPS: "a bitmap, and a stream of values",
    CODES: "a code for each pair of weights, and a stream of words",
}
INSTRUCTION = "wgmma"
READ = ("data", "chunk_start")  # A[0] and A[1] of a problem
EPILOGUE = ("bias", "relu")  # fields of a problem
FLAG_WORDS = 2  # of 4 bytes
BLOCK_ROWS = 64  # of B, which the tensor copy engine puts into shared memory: 128 bytes of a column
NARROW = 16  # columns, which hopper.py's kernel multiplies faster than strips of 2:4
# Results of the self-test: kernels/spmm/hopper_wgmma_select.cu.
PROBES = len(ALL_WIDTHS[FORMAT]) * 4 * 8 * 4
# All codes of metadata, on tiles of B' as they lie. Products of dense registers have none.
SELECTIONS = dict.fromkeys((FORMAT, LANES), Selection("wgmma.sp", "lscd_cuda_wgmma_select", PROBES))


class WgmmaProblem(Problem):
    """`WgmmaProblem` of kernels/spmm/hopper_wgmma.cuh."""

    __slots__ = ()
    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in (
                "rounds", "strips", "levels", "block_n", "blocks", "warps", "slots",
                "added_rows", "ring_bytes", "stages", "stage_bytes", "tile_slots",
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("segments", "first_segment", "shared", "tiles", "starts")
        ),
        ("relu", ctypes.c_int32),
        ("bias", ctypes.c_void_p),
    )  # fmt: skip


layout_of = strip_layouts.layout_of  # as every module of kernels has one


def split_k_of(A: Strips, layout: Layout) -> float:
    """Thread blocks for each row block."""
    return layout.blocks / row_blocks_of(A, layout.warps)


def sums_of(layout: Layout, slots: int) -> tuple[int, ...]:
    """Passes, slots, and words of 4 bytes in each: partial sums, and behind them a flag a warp."""
    return layout.passes, slots, layout.block_n * layout.row_block + FLAG_WORDS * layout.warps


def tiles_of(A: Strips, layout: Layout) -> dict[str, tuple[int, ...]]:
    """B', if a product of A has one: its shape, in words of two elements."""
    if meets_b(A):
        return {}
    return {"tiles": (layout.passes, A.rounds, DENSE_ROWS, layout.tile_columns // 2)}


def _sums(A: Strips, layout: Layout) -> str:
    """What `explain` says of row blocks that several thread blocks have."""
    plan = share_out(A, layout.blocks, layout.warps)
    if not plan.slots:
        return "of each row block in one thread block"
    owner = "the owner of a row block, who has its first rounds,"
    who = owner if plan.owners else "a kernel of its own"
    return f"partial ones in {plan.slots} slots; {who} adds them"


def _ring(layout: Layout) -> str:
    """What `explain` says of chunks under way."""
    if not layout.chunk_bytes:
        return f"{layout.stages} chunks under way in each warp"
    return f"up to 2 chunks under way in each warp, room for {layout.chunks:.3g} of mean size"


def block_rows(A: Strips) -> int:
    """Rows of B that are copied together: one instruction brings all blocks of a tile."""
    return BLOCK_ROWS if meets_b(A) else 1


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
        ring_bytes=layout.ring_bytes,
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
    of_tiles = layout.tile_slots, layout.tiles_of_round
    starts = starts_of(A, layout.blocks, layout.warps, layout.shared_by_two, *of_tiles)
    read = {name: A.arrays[name] for name in READ} | plan.shares._asdict() | {"starts": starts}
    arrays = {name: place(array) for name, array in read.items()}
    problem = _problem_of(A, N, layout, arrays, plan)
    sums, tiles = sums_of(layout, plan.slots), tiles_of(A, layout)
    return Launch((FORMATS[A.name],), problem, sums, arrays, tiles)


def choices(A: Strips, N: int, layout: Layout) -> dict[str, str]:
    """What `explain` says of a launch."""
    rows = row_blocks_of(A, layout.warps)
    columns = f"{layout.block_n} of C at once"
    if layout.passes > 1:
        columns = f"{layout.passes} x {layout.block_n} of C, side by side, each of which reads A"
        if layout.block_n in NARROW_WIDTHS:
            columns += (
                "; wider blocks have no room for enough of its largest chunks in each warp's ring"
            )
    if N <= NARROW and not meets_b(A):
        columns += f"; for {NARROW} columns and fewer, {hopper.FORMAT} is the format"
    of_passes = f"{layout.passes} x " * (layout.passes > 1)
    of_round = ", a quarter of a round's" * (layout.tiles_of_round > 1)
    few = f"; {layout.warps} warps: {layout.why_few}" * bool(layout.why_few)
    return {
        "blocks": f"{of_passes}{layout.blocks} of {32 * layout.warps} threads, "
        f"{layout.shared_bytes / 1024:.0f} KB shared memory, "
        f"{layout.tile_slots} tiles of B, {layout.tile_bytes // 1024} KB each{of_round}{few}",
        "columns": columns,
        "shares": f"{rows} row blocks of {layout.row_block}, {A.rounds} rounds each: "
        f"{rows * A.rounds / layout.blocks:.1f} rounds a block, in equal costs",
        "sums": _sums(A, layout),
        "ring": _ring(layout),
        "values": _values(A),
    }


def _values(A: Strips) -> str:
    """What `explain` says of where the weights of a launch stand."""
    if A.name in WHAT_A_LANE_HAS:
        return f"{WHAT_A_LANE_HAS[A.name]} for each lane, in a bank of its own"
    levels = "chunks of their own, every fourth" if levels_of(A) else "entries of their chunks"
    groups = "of three weights" if A.name == FORMAT else "of four columns"
    return f"groups {groups} have two slots; what is left over: {levels}{far_text(A)}"
