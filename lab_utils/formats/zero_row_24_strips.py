"""Zero-row 2:4 in strips of 16 rows, for wgmma.sp: a warp has a strip, a warpgroup 64 rows."""

from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from lab_utils.analysis.zero_row_24_strips import FULL_GROUPS, rounds, strips
from lab_utils.formats import native
from lab_utils.formats.checks import check_dense, offsets_from_counts
from lab_utils.formats.chunks import START_BYTES
from lab_utils.formats.zero_row_24_chunks import EXPONENT, PROBLEMS, ZeroRowChunks
from lab_utils.formats.zero_row_24_encode import REACH, STREAMS, check_levels, check_reach


class ZeroRow24Strips(ZeroRowChunks):
    """The groups, metadata and paired streams of `ZeroRow24`, in chunks of 16 rows.

    ::

        chunk 16x192: four tiles side by side         64 rows, all K: four strips for a warpgroup
        +-------+-------+-------+-------+             strip 0 | round 0 | round 1 | ...
        | 16x48 | 16x48 | 16x48 | 16x48 |             strip 1 | chunks of a round share
        +-------+-------+-------+-------+             strip 2 | their columns of A: one
                                                      strip 3 | tile of B for all warps

        a group with three weights has two slots; the one that is left over goes
        levels 0   to an entry: value, its row of B, its row of the strip
        levels 1   to level 1, if it is the middle one: column i there is that of group i
                   rounds 3, 7, 11, ... and the last are chunks 16x192 of level 1, for the three
                   regular ones before; what is left over there goes to entries; other middle
                   weights go to level 1 where that spares a zero beside a lone weight

        chunk  a multiple of 16 bytes, at most 10160
               +----------------+--------------+------------------+------------------+---+
               | metadata 512 B | starts 64 B  | steps of entries | 32 streams       | 0 |
               | the operand of | of streams,  | 32 B each: eight | of tile, rows g  | 4 |
               | wgmma.sp       | chunk's size | entries, a bank  | and g + 8: words | B |
               |                | and steps    | of B' for each   | of two values    |   |
               +----------------+--------------+------------------+------------------+---+

        data         uint8 [16 * U]                  chunks of strip after strip, round after round
        chunk_start  int32 [strips * rounds + 1]     of each chunk, in 16 bytes
        geometry     int32 [3]                       the `constants`: levels,
                                                     largest_chunk, nonfinite

    Bits and offsets are drawn in kernels/cpu/encode/zero_row_24_strips.h. Strips are whole 64 rows:
    those below A have no weights. An infinite or NaN weight could be loaded for a slot that is not
    in use, and 0 times it is NaN: `nonfinite` says that A has one.
    """

    name = "zero_row_24_strips"
    ARRAYS: ClassVar = {
        "data": torch.uint8,
        "chunk_start": torch.int32,
        "geometry": torch.int32,
    }
    PROBLEMS: ClassVar = PROBLEMS | {3: "has an entry that is out of place"}

    class Geometry(NamedTuple):
        """The `constants`."""

        levels: int
        largest_chunk: int
        nonfinite: int

    @classmethod
    def encode(cls, dense: Tensor, levels: int | None = None, reach: int = REACH) -> Self:
        """Encode `dense` [M, K]; raises ValueError as `SparseMatrix.encode` does.

        `levels`: 1 or 0, see above; None: 1 where more than one group in 64 has three weights, as
        random masks have below 75 % sparsity. `reach`: how many bytes may be skipped to put a
        stream where it meets fewer bank conflicts; -1: none, in plain order.

        Shared-memory wavefronts of a warp's load from the streams, of random masks, on average::

            sparsity      50%   60%   70%   80%   90%   95%
            plain order  2.17  2.34  1.89  2.02  1.54  1.00
            reach 8      1.79  1.66  1.43  1.45  1.15  1.00    0 to .7 % more bytes
        """
        dense = check_dense(dense)
        check_levels(levels)
        check_reach(reach)
        full, nonfinite = _scanned(dense)
        if levels is None:
            levels = int(full > FULL_GROUPS * dense.numel() / 3)
        arrays, largest = _packed(dense, levels, reach)
        constants = (levels, largest, nonfinite)
        arrays["geometry"] = torch.tensor(constants, dtype=torch.int32, device=dense.device)
        return cls.of_valid(tuple(dense.shape), dense.dtype, arrays, constants)

    @property
    def levels(self) -> int:
        """1 where weights without a slot have chunks of their own, 0 where they are entries."""
        return self.geometry.levels

    @property
    def strips(self) -> int:
        """Strips of 16 rows, four for each 64 rows of A."""
        return strips(self.shape[0])

    @property
    def rounds(self) -> int:
        """Chunks of a strip."""
        return rounds(self.shape[1], self.levels)

    def _encoding(self, geometry: Geometry) -> tuple[Tensor | int, ...]:
        return self.arrays["data"], self.arrays["chunk_start"], *self.shape, geometry.levels

    def _rows(self, geometry: Geometry, first: int, rows: int) -> tuple[Tensor | int, ...]:
        (_, K), levels = self.shape, geometry.levels
        starts = self.arrays["chunk_start"][strips(first) * rounds(K, levels) :]
        return self.arrays["data"], starts, rows, K, levels, geometry.largest_chunk

    def _lengths(self) -> dict[str, int | None]:
        return {"data": None, "chunk_start": None, "geometry": 3}

    def _check(self) -> None:
        levels, largest, nonfinite = geometry = self._read_geometry()
        self._check_flags(levels=levels, nonfinite=nonfinite)
        self._check_chunk_start(strips(self.shape[0]) * rounds(self.shape[1], levels))
        self._check_largest(largest)
        self._check_weights(geometry)


def _scanned(dense: Tensor) -> tuple[int, int]:
    """Groups of `dense` that have three weights; 1 if a weight is infinite or NaN, else 0."""
    M, K = dense.shape
    full = dense.new_empty(M, dtype=torch.int32)
    nonfinite = full.new_zeros(1)
    exponent = EXPONENT[dense.dtype]
    native.call("lscd_zero_row_24_strips_scan", dense, M, K, exponent, full, nonfinite)
    return int(full.sum()), int(nonfinite)


def _packed(dense: Tensor, levels: int, reach: int) -> tuple[dict[str, Tensor], int]:
    """The arrays of the encoding but for its geometry, and the bytes of its largest chunk."""
    M, K = dense.shape
    chunks = strips(M) * rounds(K, levels)
    starts = dense.new_empty(STREAMS * chunks, dtype=torch.int16)
    sizes = dense.new_empty(chunks, dtype=torch.int32)
    sent = dense.new_empty(levels * strips(M) * rounds(K, 0) * STREAMS, dtype=torch.int32)
    if levels:
        native.call("lscd_zero_row_24_strips_send", dense, M, K, sent)
    plan = (dense, M, K, levels, sent)
    native.call("lscd_zero_row_24_strips_place", *plan, reach, starts, sizes)
    chunk_start = offsets_from_counts(sizes, f"units of {START_BYTES} bytes of A's chunks")
    data = dense.new_empty(START_BYTES * int(chunk_start[-1]), dtype=torch.uint8)
    native.call("lscd_zero_row_24_strips_pack", *plan, starts, chunk_start, data)
    return {"data": data, "chunk_start": chunk_start}, START_BYTES * int(sizes.max())
