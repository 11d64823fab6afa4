"""Shared-memory bitmap decoding, lane by lane (SpInfer, section 4).

A warp decodes one 8x8 tile at a time: lane l makes register q of the A fragment of mma.m16n8k16
from bits 2l and 2l + 1 of the tile's bitmap. This is what kernels/spmm/tca_bme.cu computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab_utils.analysis.anatomy import ISSUED, WAVEFRONTS

GROUP, TILE, LANES = 64, 8, 32  # side of a GroupTile, of a BitmapTile; lanes of a warp
BITMAPS = (GROUP // TILE) ** 2  # of a GroupTile
STRIP_BITMAPS = 16  # of a strip of 16 rows: one warp's

# What one warp-wide instruction, or one wavefront, takes of an SM; measured on an H200, but for the
# wavefront: shared memory serves one in a clock.
CLOCKS = {"popcount": 2.0, "shared wavefront": 1 / WAVEFRONTS, "mma": 1.73}


@dataclass(frozen=True)
class Strip:
    """What one warp decodes: 16 rows of a GroupTile, as 16 bitmaps and the GroupTile's values.

    `bits` bool [16, 64]: bit 8r + c of each 8x8 tile; `starts` int [16]: where the run of each
    begins in `values`, which are those of the whole GroupTile.
    """

    bits: NDArray[np.bool_]
    starts: NDArray[np.int64]
    values: NDArray


@dataclass(frozen=True)
class Lanes:
    """What 32 lanes compute of T tiles; every array is [T, 32].

    `low` and `high`: set bits below bit 2 * lane in the bitmap's lower and upper half. `at`: place
    of the lane's first value, start + low + high. `first` and `second`: its two bits. The second
    value lies at `second_at`, right behind the first if there is a first.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    at: NDArray[np.int64]
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]

    @property
    def second_at(self) -> NDArray[np.int64]:
        return self.at + self.first


def check_lane(lane: int) -> None:
    """Raise ValueError for a lane that a warp does not have."""
    if not 0 <= lane < LANES:
        raise ValueError(f"lane={lane!r}; allowed: 0 to {LANES - 1}")


def masks(lane: int) -> tuple[int, int]:
    """The bits below bit 2 * lane, of the lower and of the upper half of a bitmap."""
    below = (1 << 2 * lane) - 1
    return below & 0xFFFFFFFF, below >> 32


def bits_of(bitmaps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bitmaps int64 [T] as bool [T, 64], bit 0 first."""
    octets = np.ascontiguousarray(bitmaps).astype("<i8").view(np.uint8).reshape(-1, 8)
    return np.unpackbits(octets, axis=1, bitorder="little").astype(bool)


def strip_of(arrays: Mapping[str, NDArray], group: int, strip: int) -> Strip:
    """Strip 0 to 3 of a GroupTile of a TCA-BME encoding. Raises ValueError for one out of range."""
    groups = len(arrays["gt_offset"]) - 1
    if not (0 <= group < groups and 0 <= strip < 4):
        raise ValueError(f"group={group}, strip={strip}: allowed: below {groups} and below 4")
    first = group * BITMAPS + strip * STRIP_BITMAPS
    bits = bits_of(arrays["bitmap"][first : first + STRIP_BITMAPS])
    counts = bits.sum(axis=1)
    start = arrays["strip_offset"][4 * group + strip]
    values = arrays["values"][arrays["gt_offset"][group] : arrays["gt_offset"][group + 1]]
    return Strip(bits, start + counts.cumsum() - counts, values)


def decode_lanes(bits: NDArray[np.bool_], starts: NDArray[np.int64]) -> Lanes:
    """MaskedPopCount of every lane, for bitmaps bool [T, 64] whose runs start at `starts` [T]."""
    halves = bits.reshape(-1, 2, 32)
    before = halves.cumsum(axis=2) - halves  # set bits below each bit, in its half
    low, high = np.zeros((2, len(bits), LANES), dtype=np.int64)
    low[:, :16], low[:, 16:] = before[:, 0, ::2], halves[:, :1].sum(axis=2)
    high[:, 16:] = before[:, 1, ::2]
    at = np.asarray(starts)[:, None] + low + high
    return Lanes(low, high, at, bits[:, ::2], bits[:, 1::2])


def fragments(bits: NDArray[np.bool_], starts: NDArray, values: NDArray) -> NDArray:
    """The registers that lanes fill: [T, 32, 2], lower half first, of the dtype of `values`."""
    lanes, padded = decode_lanes(bits, starts), np.append(values, np.zeros(1, values.dtype))
    pairs = np.zeros((*lanes.at.shape, 2), values.dtype)
    for half, (has, at) in enumerate(((lanes.first, lanes.at), (lanes.second, lanes.second_at))):
        pairs[..., half][has] = padded[at[has]]
    return pairs


def fragment_place(lane: int, register: int, half: int) -> tuple[int, int]:
    """Row and column, in 16x16, of a half of an A register of mma.m16n8k16 (PTX manual)."""
    return lane // 4 + register % 2 * 8, lane % 4 * 2 + register // 2 * 8 + half


def assemble(registers: NDArray) -> NDArray:
    """The 16x16 matrix that four registers of 32 lanes hold: [4, 32, 2] -> [16, 16]."""
    dense = np.zeros((16, 16), registers.dtype)
    for q, lane, half in np.ndindex(4, LANES, 2):
        dense[fragment_place(lane, q, half)] = registers[q, lane, half]
    return dense


def decode(arrays: Mapping[str, NDArray], M: int, K: int) -> NDArray:
    """The dense [M, K] matrix of a TCA-BME encoding, strip by strip as warps decode it."""
    groups_k = -(-K // GROUP)
    dense = np.zeros((-(-M // GROUP) * GROUP, groups_k * GROUP), arrays["values"].dtype)
    for group, strip, k16 in np.ndindex(len(arrays["gt_offset"]) - 1, 4, 4):
        mine, quad = strip_of(arrays, group, strip), slice(4 * k16, 4 * k16 + 4)
        row = group // groups_k * GROUP + strip * 16
        col = group % groups_k * GROUP + k16 * 16
        registers = fragments(mine.bits[quad], mine.starts[quad], mine.values)
        dense[row : row + 16, col : col + 16] = assemble(registers)
    return dense[:M, :K]


def clocks_needed(
    popcounts: float, wavefronts: float, mmas: float, instructions: float, weights: int
) -> dict[str, float]:
    """Clocks of an SM per 64 weights that each unit needs for a kernel's counted work.

    Popcounts and mmas are warp-wide instructions; `instructions` are all of the kernel's, four of
    which are issued in a clock.
    """
    work = {"popcount": popcounts, "shared wavefront": wavefronts, "mma": mmas}
    clocks = {unit: count * CLOCKS[unit] * 64 / weights for unit, count in work.items()}
    return clocks | {"issue": instructions / ISSUED * 64 / weights}
