"""What a thread block of hopper_wgmma has: columns, warps, and its parts of shared memory.

In shared memory are a ring of chunks of A for each warp, and one of tiles of B for all. Products of
bitmap_strips and coded_strips meet B as it lies; others B', whose tiles are multiples of 16 columns
wide and have, for zero_row_24_strips, rows of zeros.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from lab_utils.analysis.zero_row_24 import TILE_ROWS as STRIP_ROWS
from lab_utils.backends import hopper
from lab_utils.backends.row_blocks import Strips, row_blocks_of
from lab_utils.backends.warp_starts import ANY_BYTES, STRIP_STAGES
from lab_utils.formats import BitmapStrips, CodedStrips, Lane24Strips, ZeroRow24Strips
from lab_utils.formats.chunks import START_BYTES

FORMAT, LANES = ZeroRow24Strips.name, Lane24Strips.name
BITMAPS, CODES = BitmapStrips.name, CodedStrips.name
OF_DENSE_WGMMA = (BITMAPS, CODES)
# Columns of C that a thread block has at once: with 16 warps, and with 12, which have registers.
NARROW_WIDTHS, WIDE_WIDTHS = (24, 32, 40, 48, 56, 64), (80, 96, 112, 128)
WIDTHS = NARROW_WIDTHS + WIDE_WIDTHS
# Of 2:4 alone: with 8 warps. Of dense products alone: with 16 warps; with 12 up to 192 and 8 for
# more, where B comes in quarters of a round's tile; the same, where these are of two wgmma, in a
# ring that may be shorter than a round; with 12 instead of 16, where `_why_few` tells.
WIDEST_WIDTHS = (160,)
NARROWEST_WIDTHS, QUARTERED_WIDTHS, QUARTERS = (8, 16), (160, 192, 224, 256), 4
DOUBLED_WIDTHS, LEAST_QUARTERS = (288, 320, 352, 384), 3
FEW_WIDTHS, FEW_WARPS = (8, 16, 32, 48, 64), 12
ALL_WIDTHS = {
    FORMAT: WIDTHS + WIDEST_WIDTHS,
    LANES: WIDTHS + WIDEST_WIDTHS,
    **dict.fromkeys(OF_DENSE_WGMMA, NARROWEST_WIDTHS + WIDTHS + QUARTERED_WIDTHS + DOUBLED_WIDTHS),
}
# Columns that 12 warps have registers for.
COLUMNS_OF_FEW = {FORMAT: 128, LANES: 128, BITMAPS: 192, CODES: 192}
# Columns of a block from which rings have two ends, a chunk at the beginning and the next one at
# the end, with 16 warps only where two stages have no room. Of dense products alone: with 64
# columns 2:4 has no registers for that.
TWO_ENDED_FROM = 64
# Chunks under way in a ring for which wide blocks are as narrow as they must be. To decode bitmaps
# or codes for fewer columns costs more than to wait for their only copy: with 96 and 128 columns at
# .5 one pass over bitmaps took a quarter less time than two of half the width.
ENOUGH_CHUNKS = {FORMAT: STRIP_STAGES, LANES: STRIP_STAGES, BITMAPS: 1, CODES: 1}
# What a pass costs beside its columns, in columns: lanes at .8 take 85, 100, 109, 120, 129 and
# 161 µs for 64, 80, 96, 112, 128 and 160 of them (36864 x 9216). Bitmaps at .5 as well: 201, 226,
# 250 and 275 for 160, 192, 224 and 256.
PASS_COLUMNS = 50

# Rounds of a thread block of 16 warps below which 12 are faster: with 6 by 2 to 8 %, with 10 not.
# Bytes of a chunk from which they are for 8 and 16 columns, 1 to 5 %: memory binds, not decoding.
FEW_ROUNDS, LARGE_CHUNK = 8, 4500

# Bytes of a block's shared memory: at most, and before the tiles of B, where mbarriers are.
SHARED_BYTES, HEAD_BYTES = hopper.SHARED_BYTES, 1024
DENSE_ROWS = 256  # of B, or of B', in a round
COLS_AT_ONCE = 16  # which are made into B': its tiles have multiples
MOST_TILES = 6


@dataclass(frozen=True)
class Layout:
    """Thread blocks, and what of their shared memory is for B, what for the warps' rings."""

    block_n: int
    warps: int  # of a thread block
    passes: int  # over A, of block_n columns each
    blocks: int  # of a pass
    stage_bytes: int  # with room for any chunk
    tile_columns: int  # of a tile of B
    tiles_of_round: int = 1  # of B
    chunk_bytes: float = 0  # in the mean, where rings have two ends; 0: they are in stages
    why_few: str = ""  # warps; empty where there are as many as have registers

    @property
    def narrow(self) -> bool:
        """Whether a block is never too wide, whatever room it leaves for rings."""
        return self.block_n <= NARROW_WIDTHS[-1]

    @property
    def least_tiles(self) -> int:
        """Of B, that are in shared memory."""
        if self.block_n in DOUBLED_WIDTHS:
            return LEAST_QUARTERS
        return max(2, self.tiles_of_round)

    @property
    def row_block(self) -> int:
        """Rows of a thread block."""
        return self.warps * STRIP_ROWS

    @property
    def tile_bytes(self) -> int:
        return DENSE_ROWS // self.tiles_of_round * self.tile_columns * 2

    def room_beside(self, tiles: int) -> int:
        """Bytes of each warp's ring, beside so many tiles of B."""
        return (SHARED_BYTES - HEAD_BYTES - tiles * self.tile_bytes) // self.warps

    @cached_property  # plans are made once, but every launch asks them
    def stages(self) -> int:
        """STRIP_STAGES of a ring, one, or 0 where not even one fits."""
        return min(STRIP_STAGES, self.room_beside(self.least_tiles) // self.stage_bytes)

    @cached_property
    def ring_bytes(self) -> int:
        """Bytes of each warp's ring: stages, or, of two ends, lines that two chunks may share."""
        if not self.chunk_bytes:
            return self.stages * self.stage_bytes
        room = self.room_beside(self.least_tiles) // hopper.LINE * hopper.LINE
        return (self.stages > 0) * min(STRIP_STAGES * self.stage_bytes, room)

    @property
    def chunks(self) -> float:
        """Under way in a ring: its stages, or how many it has room for in the mean."""
        if not self.chunk_bytes:
            return self.stages
        return min(STRIP_STAGES, self.ring_bytes / self.chunk_bytes)

    @property
    def shared_by_two(self) -> int:
        """Bytes that a ring's first two chunks may have; of two stages ANY_BYTES, of one 0."""
        if self.chunk_bytes:
            return self.ring_bytes
        return ANY_BYTES * (self.stages == STRIP_STAGES)

    @cached_property
    def tile_slots(self) -> int:
        """Tiles of B in shared memory."""
        room = SHARED_BYTES - HEAD_BYTES - self.warps * self.ring_bytes
        most = MOST_TILES if self.tiles_of_round == 1 else self.tiles_of_round
        return min(most, room // self.tile_bytes)

    @property
    def shared_bytes(self) -> int:
        rings = self.warps * self.ring_bytes
        return HEAD_BYTES + self.tile_slots * self.tile_bytes + rings


def layout_of(A: Strips, N: int, multiprocessors: int, split_k: float | None) -> Layout:
    """A thread block on each multiprocessor, or `split_k` of them for a row block of each pass.

    Passes stand side by side, each on its part of the multiprocessors: they copy the same chunks at
    about the same time, from memory once; what is left over stays idle, up to half of a GPU where
    passes are most of its multiprocessors. Thread blocks are as wide as shared memory
    leaves room for rings of ENOUGH_CHUNKS; of few warps, where these are faster.
    """
    layouts = (_layout(A, *passes) for passes in passes_by_cost(N, ALL_WIDTHS[A.name]))
    layout = next(one for one in layouts if one.narrow or one.chunks >= ENOUGH_CHUNKS[A.name])
    each = multiprocessors // layout.passes
    if meets_b(A) and layout.narrow:
        few = _layout(A, *columns_of_a_pass(N, FEW_WIDTHS), FEW_WARPS)
        if why := _why_few(A, layout, few, each):
            layout = replace(few, why_few=why)
    rows = row_blocks_of(A, layout.warps)
    wanted = each if split_k is None else round(split_k * rows)
    return replace(layout, blocks=max(1, min(wanted, rows * A.rounds)))


def _why_few(A: Strips, many: Layout, few: Layout, multiprocessors: int) -> str:
    """Why blocks of 12 warps, which may be wider, are faster than of 16; "" where they are not."""
    if few.chunks != many.chunks:
        more = few.chunks > many.chunks
        room = f"rings of {many.warps} have room for {many.chunks:.3g} of its chunks"
        return f"{room}, not {few.chunks:.3g}" * more
    rounds = row_blocks_of(A, many.warps) * A.rounds
    if rounds < FEW_ROUNDS * multiprocessors:
        return f"fewer than {FEW_ROUNDS} rounds of {many.warps} for each multiprocessor"
    large = A.nbytes >= LARGE_CHUNK * A.strips * A.rounds
    return "memory binds, not decoding" * (large and many.block_n in NARROWEST_WIDTHS)


def meets_b(A: Strips) -> bool:
    """Whether products of A read B as it lies, not B' that is made of it."""
    return A.name in OF_DENSE_WGMMA


def columns_of_a_pass(N: int, widths: tuple[int, ...]) -> tuple[int, int]:
    """Which of these widths costs least in as many passes over A as it takes; and how many."""
    return passes_by_cost(N, widths)[0]


def passes_by_cost(N: int, widths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Each width, and how many passes of it there are, by what these cost; of equals the fewest."""
    passes = [(width, -(-N // width)) for width in widths]
    return sorted(passes, key=lambda one: (one[1] * (one[0] + PASS_COLUMNS), one[1]))


def warps_of(A: Strips, block_n: int) -> int:
    """Of a thread block: as many as have registers for their sums."""
    if block_n <= NARROW_WIDTHS[-1]:
        return 16
    return FEW_WARPS if block_n <= COLUMNS_OF_FEW[A.name] else 8


def _layout(A: Strips, block_n: int, passes: int, warps: int | None = None) -> Layout:
    """Of one thread block of each pass."""
    warps = warps or warps_of(A, block_n)
    columns = block_n if meets_b(A) else -(-block_n // COLS_AT_ONCE) * COLS_AT_ONCE
    quartered = meets_b(A) and block_n in QUARTERED_WIDTHS + DOUBLED_WIDTHS
    of_round = QUARTERS if quartered else 1
    stage_bytes = hopper.stage_bytes(A.largest_copy)
    layout = Layout(block_n, warps, passes, 1, stage_bytes, columns, of_round)
    if meets_b(A) and _has_ends(layout):
        return replace(layout, chunk_bytes=A.nbytes / (A.strips * A.rounds))
    # Where that saves a second stage, stages begin anywhere in a line, and the largest chunks, too.
    tight = layout.room_beside(layout.least_tiles) // STRIP_STAGES // START_BYTES * START_BYTES
    if layout.stages < STRIP_STAGES and tight >= A.largest_copy:
        return replace(layout, stage_bytes=tight)
    return layout


def _has_ends(layout: Layout) -> bool:
    """Whether the rings of a dense product's thread blocks have two ends."""
    if layout.block_n > TWO_ENDED_FROM:
        return True
    short = layout.stages < STRIP_STAGES and layout.warps > FEW_WARPS
    return layout.block_n == TWO_ENDED_FROM and short
