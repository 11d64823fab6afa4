"""TCA-BME: tensor-core-aware bitmap encoding (SpInfer, section 4)."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from lab_utils.formats import native
from lab_utils.formats.base import WEIGHT, SparseMatrix
from lab_utils.formats.checks import check_dense, offsets_from_counts

GROUP = 64  # rows and columns of a GroupTile
ALIGN = 8  # halves: each GroupTile's values start on 16 bytes

PROBLEMS = {
    1: "has bitmap bits outside of the matrix",
    2: "stores a +0 that its bitmaps call non-zero",
    3: "has a non-zero in the padding of its values",
}


class TcaBme(SparseMatrix):
    """8x8 bitmaps and packed values, nested in the order of the tensor core's registers.

    ::

        GroupTile 64x64  >  strip 16x64  >  TCTile 16x16  >  BitmapTile 8x8 (TL, BL, TR, BR)

        bitmap        int64 [64 * GT]        bit 8r+c: element (r, c) of the 8x8 tile is non-zero
        values        fp16/bf16 [padded]     non-zeros in the same nesting; each GroupTile padded
                                             with +0 to 16 bytes
        gt_offset     int32 [GT + 1]         first value of each GroupTile, in elements
        strip_offset  int32 [4 * GT]         first value of each strip, inside its GroupTile
        max_nnz       int32 [1]              most non-zeros of a GroupTile, rounded up to 64

    M and K are padded with zeros to multiples of 64. `expected_nbytes` is SpInfer's equation 9,
    which leaves out `strip_offset` and the padding.
    """

    name = "tca_bme"
    ROW_BLOCK, WRITES_ZEROS = GROUP, True
    ARRAYS: ClassVar = {
        "bitmap": torch.int64,
        "values": WEIGHT,
        "gt_offset": torch.int32,
        "strip_offset": torch.int32,
        "max_nnz": torch.int32,
    }

    @classmethod
    def encode(cls, dense: Tensor) -> Self:
        dense = check_dense(dense)
        M, K = dense.shape
        bitmap = dense.new_empty(64 * -(-M // GROUP) * -(-K // GROUP), dtype=torch.int64)
        native.call("lscd_tca_bme_mark", dense, M, K, bitmap)
        offsets = _offsets(bitmap)
        values = dense.new_empty(int(offsets["gt_offset"][-1]))
        native.call("lscd_tca_bme_pack", dense, M, K, bitmap, offsets["gt_offset"], values)
        arrays = {"bitmap": bitmap, "values": values, **offsets}
        return cls.of_valid((M, K), dense.dtype, arrays)

    @property
    def groups(self) -> int:
        """Number of GroupTiles."""
        M, K = self.shape
        return -(-M // GROUP) * -(-K // GROUP)

    @property
    def strips(self) -> int:
        """Strips of 16 rows, four for each GroupTile of a column."""
        return GROUP // 16 * -(-self.shape[0] // GROUP)

    @property
    def rounds(self) -> int:
        """GroupTiles of a row."""
        return -(-self.shape[1] // GROUP)

    def _read_constants(self) -> tuple[int, ...]:
        return (int(self.arrays["max_nnz"]),)

    def _unpack(self, dense: Tensor, first: int) -> None:
        a, group = self.arrays, first // GROUP * -(-self.shape[1] // GROUP)
        arguments = (a["bitmap"][64 * group :], a["gt_offset"][group:], a["values"])
        native.call("lscd_tca_bme_unpack", *arguments, *dense.shape, dense)

    def _lengths(self) -> dict[str, int | None]:
        groups = self.groups
        return {
            "bitmap": 64 * groups,
            "values": None,
            "gt_offset": groups + 1,
            "strip_offset": 4 * groups,
            "max_nnz": 1,
        }

    def _check(self) -> None:
        a = self.arrays
        for name, counted in _offsets(a["bitmap"]).items():
            self.require(torch.equal(a[name], counted), f"{name} does not match the bitmaps")
        needed = int(a["gt_offset"][-1])
        self.require(
            a["values"].numel() == needed,
            f"{a['values'].numel()} values, the bitmaps need {needed}",
        )
        arguments = (a["bitmap"], a["gt_offset"], a["values"], *self.shape)
        self._scan("GroupTile", PROBLEMS, "lscd_tca_bme_check", *arguments)


def _offsets(bitmap: Tensor) -> dict[str, Tensor]:
    """What the bitmaps [64 * GT] say about the values: gt_offset, strip_offset and max_nnz."""
    per_strip = bitmap.new_empty(bitmap.numel() // 16, dtype=torch.int32)
    native.call("lscd_tca_bme_count", bitmap, per_strip.numel(), per_strip)
    # One long sum: GPUs are slow at many sums of four.
    starts = (per_strip.cumsum(0) - per_strip).view(-1, 4)  # int64 [GT, 4], non-zeros before
    per_group = per_strip.view(-1, 4).sum(1, dtype=torch.int32)
    return {
        "gt_offset": offsets_from_counts(_round_up(per_group, ALIGN), "non-zeros of A, padded"),
        "strip_offset": (starts - starts[:, :1]).int().flatten(),
        "max_nnz": _round_up(per_group.max(), 64).reshape(1),
    }


def _round_up(count: Tensor, multiple: int) -> Tensor:
    return (count + multiple - 1) // multiple * multiple
