"""Launches of kernels/spmm/hopper_tiles*.cu: four formats by many columns, on sm_90.

Pairs of thread blocks (clusters) decode a row block of A, once for all their columns, into dense
tiles of shared memory. `tile_shares` says which pair has which.

The problem is that of hopper_wgmma.
"""

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from lab_utils.analysis.compression import VALUE_BYTES
from lab_utils.backends import hopper, hopper_wgmma, strip_layouts
from lab_utils.backends.hopper_wgmma import WgmmaProblem
from lab_utils.backends.launch import Launch, Place, unmoved
from lab_utils.backends.problem import product
from lab_utils.backends.remembered import remembered
from lab_utils.backends.row_blocks import Shares, row_blocks_of
from lab_utils.backends.strip_layouts import BITMAPS, CODES, LANES
from lab_utils.backends.tile_shares import shares_of
from lab_utils.formats import BitmapStrips, CodedStrips, Lane24Strips, TcaBme

TCA_BME = TcaBme.name
FORMATS = {  # and who multiplies them
    LANES: "lscd_cuda_tiles_lanes",
    TCA_BME: "lscd_cuda_tiles_tca_bme",
    BITMAPS: "lscd_cuda_tiles_bitmap",
    CODES: "lscd_cuda_tiles_coded",
}
INSTRUCTION = "tiles"

PAIR = 2  # thread blocks of a cluster, each with its own columns
WARPS = 8  # that multiply, a strip of 16 rows each; others decode
ROW_BLOCK = 16 * WARPS
STEP_BYTES = 128  # 64 columns of A: of a row of a tile
OWN_STRIPS = 4  # of a thread block: another warp decodes each
OF_STRIPS = (LANES, BITMAPS, CODES)
# In turns, where there are two sets.
DECODING_WARPS = dict.fromkeys(OF_STRIPS, OWN_STRIPS) | {TCA_BME: 2 * OWN_STRIPS}
WHO_DECODES = dict.fromkeys(OF_STRIPS, "four warps") | {TCA_BME: "two sets of four warps"}

# Bytes of a GroupTile in shared memory beside its values: bitmaps, and where strips begin; and what
# loads of whole words reach behind.
GROUP_HEAD, BEHIND = 512 + 16, 16

Tiled = Lane24Strips | TcaBme | BitmapStrips | CodedStrips
ON_THEIR_WAY = dict.fromkeys(OF_STRIPS, "chunks under way in each decoding warp") | {
    TCA_BME: "GroupTiles under way"
}
READ = dict.fromkeys(OF_STRIPS, hopper_wgmma.READ) | {
    TCA_BME: ("bitmap", "values", "gt_offset", "strip_offset")
}


class Width(NamedTuple):
    """Columns of a thread block, by one of the formats, as `Tiles` of kernels/spmm/hopper_tiles.cuh
    has them: tiles of A and of B in shared memory; what a pass takes, in hundredths of one of 256
    columns (rows of an H200; a test holds the numbers to them).
    """

    a_places: int
    b_places: int
    cost: int


WIDTHS = {
    LANES: {
        160: Width(4, 4, 77),
        192: Width(4, 4, 84),
        224: Width(4, 4, 89),
        256: Width(4, 4, 101),
        288: Width(5, 3, 118),
        320: Width(4, 3, 123),
        352: Width(3, 3, 138),
        384: Width(3, 3, 152),
    },
    TCA_BME: {
        160: Width(4, 4, 75),
        192: Width(4, 4, 83),
        224: Width(4, 4, 94),
        256: Width(4, 4, 100),
        288: Width(4, 3, 108),
        320: Width(4, 3, 114),
        352: Width(4, 3, 119),
    },
    **{
        name: {
            160: Width(4, 4, 72),
            192: Width(4, 4, 84),
            224: Width(4, 3, 91),
            256: Width(4, 3, 100),
            288: Width(4, 3, 112),
            320: Width(3, 3, 121),
            352: Width(3, 3, 132),
            384: Width(3, 3, 138),
        }
        for name in (BITMAPS, CODES)
    },
}


class Rings(NamedTuple):
    """Of chunks of strips, one for each decoding warp; of GroupTiles, for all."""

    format: str
    count: int
    stage_bytes: int

    @property
    def stages(self) -> tuple[int, int]:
        """The least and the most: two chunks; six or eight GroupTiles, half for either set."""
        return (6, 8) if self.format == TCA_BME else (2, 2)


def rings_of(A: Tiled) -> Rings:
    """What decoders of kernels/spmm/hopper_tiles_chunks.cuh and hopper_tiles_groups.cuh have."""
    if isinstance(A, TcaBme):
        (values,) = A.constants
        return Rings(TCA_BME, 1, GROUP_HEAD + VALUE_BYTES * values + BEHIND)
    return Rings(A.name, OWN_STRIPS, hopper.stage_bytes(A.largest_copy))


@dataclass(frozen=True)
class Layout:
    """Pairs of thread blocks, and the columns of each of the two."""

    block_n: int
    passes: int  # over A, of 2 · block_n columns each, one after another
    blocks: int  # pairs
    rings: Rings
    stages: int  # of each

    @property
    def width(self) -> Width:
        return WIDTHS[self.rings.format][self.block_n]

    @property
    def columns(self) -> int:
        """Of all passes."""
        return self.passes * PAIR * self.block_n

    @property
    def cost(self) -> float:
        """What it takes, in passes of 256 columns for each block."""
        return self.passes * self.width.cost / 100

    @property
    def shared_bytes(self) -> int:
        """Of a thread block."""
        rows = self.width.a_places * ROW_BLOCK + self.width.b_places * self.block_n
        rings = self.rings.count * self.stages * self.rings.stage_bytes
        return strip_layouts.HEAD_BYTES + STEP_BYTES * rows + rings


def layout_of(A: Tiled, N: int, multiprocessors: int, split_k: float | None) -> Layout:
    """A pair on every two multiprocessors, or `split_k` of them for each row block of a pass.

    Some may have nothing to do (`tile_shares`).
    """
    layout = _layout(rings_of(A), N)
    rows = row_blocks_of(A, WARPS) * layout.passes
    wanted = multiprocessors // PAIR if split_k is None else round(split_k * rows)
    return replace(layout, blocks=max(1, min(wanted, rows * A.rounds)))


@functools.cache  # the matrices of a model have few
def _layout(rings: Rings, N: int) -> Layout:
    """Of one pair, in passes that cost least, of widths that leave room for the largest chunks."""
    least, most = rings.stages
    layouts = (Layout(n, -(-N // (PAIR * n)), 1, rings, least) for n in WIDTHS[rings.format])
    fit = (layout for layout in layouts if layout.shared_bytes <= hopper.SHARED_BYTES)
    best = min(fit, key=lambda layout: layout.cost)
    full = replace(best, stages=most)
    return full if full.shared_bytes <= hopper.SHARED_BYTES else best


def split_k_of(A: Tiled, layout: Layout) -> float:
    """Pairs for each row block."""
    return layout.blocks / (row_blocks_of(A, WARPS) * layout.passes)


def _host_shares(A: Tiled, layout: Layout) -> Shares:
    """Who multiplies what, on the host."""
    rows = row_blocks_of(A, WARPS) * layout.passes
    return shares_of(rows, A.rounds, layout.blocks, A.shape[1], layout.block_n)


def _shares(A: Tiled, layout: Layout) -> Shares:
    """The same, on A's device."""

    def find() -> Shares:
        shares = _host_shares(A, layout)
        return Shares(*(array.int().contiguous().to(A.device) for array in shares))

    return remembered(A, (INSTRUCTION, layout.passes, layout.blocks, layout.block_n), find)


def _slots(A: Tiled, layout: Layout) -> int:
    """Parts of row blocks that several pairs have."""
    return int((_host_shares(A, layout).segments[:, -1] >= 0).sum())


def _problem_of(A: Tiled, N: int, layout: Layout, arrays: dict[str, Tensor]) -> WgmmaProblem:
    return WgmmaProblem(
        **product(A, N, (arrays[name] for name in READ[A.name])),
        rounds=A.rounds,
        strips=A.strips,
        block_n=layout.block_n,
        blocks=layout.blocks,
        slots=_slots(A, layout),
        added_rows=arrays["shared"].shape[0],
        stages=layout.stages,
        stage_bytes=layout.rings.stage_bytes,
        tile_slots=layout.width.a_places,
        **{name: arrays[name].data_ptr() for name in Shares._fields},
    )


def launch_of(A: Tiled, N: int, layout: Layout, place: Place = unmoved) -> Launch:
    """A launch, but for B, C and scratch memory; it reads what `place` makes of its arrays."""
    read = {name: A.arrays[name] for name in READ[A.name]} | _shares(A, layout)._asdict()
    arrays = {name: place(array) for name, array in read.items()}
    problem = _problem_of(A, N, layout, arrays)
    sums = PAIR, _slots(A, layout), layout.block_n * ROW_BLOCK
    return Launch((FORMATS[A.name],), problem, sums, arrays)


def choices(A: Tiled, N: int, layout: Layout) -> dict[str, str]:
    """What `explain` says of a launch."""
    rows, slots = row_blocks_of(A, WARPS), _slots(A, layout)
    threads = 32 * (WARPS + DECODING_WARPS[A.name])
    of_passes = f"{layout.passes} x " * (layout.passes > 1)
    each = layout.passes * rows * A.rounds / layout.blocks
    left = layout.passes * rows % layout.blocks
    fewer = f"; {layout.blocks - left} pairs have one less" * (left > 0)
    times = f"{layout.passes} times, for" if layout.passes > 1 else "once, for all:"
    return {
        "blocks": f"{layout.blocks} pairs of {threads} threads, "
        f"{layout.shared_bytes / 1024:.0f} KB shared memory",
        "columns": f"A is decoded {times} {of_passes}{PAIR} x {layout.block_n} of C",
        "shares": f"{of_passes}{rows} row blocks of {ROW_BLOCK}, {A.rounds} rounds each: "
        f"{each:.1f} rounds a pair in the mean",
        "sums": f"partial ones in {slots} slots; a kernel of its own adds them"
        if slots
        else f"of each row block in one pair{fewer}",
        "ring": f"{layout.stages} {ON_THEIR_WAY[A.name]}, "
        f"{layout.width.a_places} tiles of A, {layout.width.b_places} of B",
        "values": f"{WHO_DECODES[A.name]} of a block decode {ROW_BLOCK // PAIR} rows, and copy "
        f"them to the other{hopper_wgmma.far_text(A) if A.name == LANES else ''}",
    }
