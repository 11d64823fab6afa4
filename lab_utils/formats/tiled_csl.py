"""Tiled-CSL, compressed sparse lists by tile (Flash-LLM, section 4.3)."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.formats import native
from lab_utils.formats.base import SparseMatrix, bits
from lab_utils.formats.checks import check_dense, offsets_from_counts

TILE_ROWS, TILE_COLS = 128, 64
VECTOR = 4  # words that a lane loads at once: each tile holds whole vectors

PROBLEMS = {
    1: "has a tile_offset that falls, or points out of the words",
    2: "has a location out of 0 .. 8191",
    3: "has the same location twice",
    4: "has a non-zero outside of the matrix",
    5: "has more words of value 0 than fill up its last vector",
}


class TiledCsl(SparseMatrix):
    """128x64 tiles, row-major; in each, one 32-bit word per non-zero, in shared-memory order.

    ::

        word:  31         16 15          0
              +-------------+-------------+    location = row * 64 + (col XOR 8 * (row mod 8)),
              |  location   |    value    |    inside the tile
              +-------------+-------------+

        words         int32 [4 * vectors]   the words of tile after tile, each padded to 4 words
        tile_offsets  int32 [tiles + 2]     first vector of each tile, then the total, twice

    A padding word has value 0 and the location of a zero weight, in the bank with fewest words.
    `expected_nbytes` is SpInfer's equation 2, which leaves out the padding and two offsets.
    """

    name = "tiled_csl"
    ROW_BLOCK, WRITES_ZEROS = TILE_ROWS, True
    ARRAYS: ClassVar = {"words": torch.int32, "tile_offsets": torch.int32}

    @classmethod
    def encode(cls, dense: Tensor, reorder: bool = True) -> Self:
        """Encode `dense` [M, K]; raises ValueError as `SparseMatrix.encode` does.

        With `reorder` (Flash-LLM, algorithm 3) a warp that scatters 32 words to shared memory
        meets as few bank conflicts as the tile allows; without, words follow the tile's rows.
        Both decode alike and take the same bytes.
        """
        if not isinstance(reorder, bool):
            raise ValueError(f"reorder={reorder!r}; allowed: True, False")
        dense = check_dense(dense)
        M, K = dense.shape
        vectors = dense.new_empty(-(-M // TILE_ROWS) * -(-K // TILE_COLS), dtype=torch.int32)
        native.call("lscd_tiled_csl_count", dense, M, K, vectors)
        offsets = offsets_from_counts(vectors, "vectors of A's words")
        tile_offsets = torch.cat([offsets, offsets[-1:]])
        words = dense.new_empty(VECTOR * int(offsets[-1]), dtype=torch.int32)
        native.call("lscd_tiled_csl_pack", dense, M, K, tile_offsets, int(reorder), words)
        arrays = {"words": words, "tile_offsets": tile_offsets}
        return cls.of_valid((M, K), dense.dtype, arrays)

    @property
    def nnz(self) -> int:
        low_halves = bits(self.arrays["words"])[::2]  # little-endian
        return int(torch.count_nonzero(low_halves))

    @property
    def tiles(self) -> int:
        """Number of storage tiles."""
        M, K = self.shape
        return -(-M // TILE_ROWS) * -(-K // TILE_COLS)

    def _unpack(self, dense: Tensor, first: int) -> None:
        a = self.arrays
        tile_offsets = a["tile_offsets"][first // TILE_ROWS * -(-self.shape[1] // TILE_COLS) :]
        native.call("lscd_tiled_csl_unpack", tile_offsets, a["words"], *dense.shape, dense)

    def _lengths(self) -> dict[str, int | None]:
        return {"words": None, "tile_offsets": self.tiles + 2}

    def _check(self) -> None:
        words, offsets = self.arrays["words"], self.arrays["tile_offsets"]
        vectors, left = divmod(words.numel(), VECTOR)
        self.require(left == 0, f"{words.numel()} words are not a multiple of {VECTOR}")
        self.require(int(offsets[0]) == 0, f"tile_offsets start at {int(offsets[0])}, not at 0")
        self.require(
            offsets[-2:].tolist() == [vectors, vectors],
            f"tile_offsets end with {offsets[-2:].tolist()}, not twice with {vectors}",
        )
        self._scan("tile", PROBLEMS, "lscd_tiled_csl_check", offsets, words, *self.shape, vectors)
