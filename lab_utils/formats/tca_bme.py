"""TCA-BME: tensor-core-aware bitmap encoding (SpInfer, section 4; SPEC E.1)."""

from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from lab_utils.analysis.compression import tca_bme_bytes
from lab_utils.formats import native
from lab_utils.formats.base import WEIGHT, SparseMatrix, bits, check_dense, offsets_from_counts

GROUP = 64  # rows and columns of a GroupTile
ALIGN = 8  # halves: each GroupTile's values start on 16 bytes


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
        groups = -(-M // GROUP) * -(-K // GROUP)
        bitmap = torch.empty(64 * groups, dtype=torch.int64)
        per_strip = torch.empty(4 * groups, dtype=torch.int32)
        native.call("lscd_tca_bme_count", dense, M, K, bitmap, per_strip)
        strip_offset, per_group = _within_group(per_strip)
        gt_offset = offsets_from_counts(_round_up(per_group, ALIGN), "non-zeros of A, padded")
        values = torch.zeros(int(gt_offset[-1]), dtype=dense.dtype)
        native.call("lscd_tca_bme_pack", dense, M, K, bitmap, gt_offset, values)
        arrays = {
            "bitmap": bitmap,
            "values": values,
            "gt_offset": gt_offset,
            "strip_offset": strip_offset,
            "max_nnz": _round_up(per_group.max(), 64).reshape(1),
        }
        return cls((M, K), dense.dtype, arrays)

    def decode(self) -> Tensor:
        M, K = self.shape
        dense = torch.zeros(M, K, dtype=self.dtype)
        a = self.arrays
        native.call(
            "lscd_tca_bme_unpack", a["bitmap"], a["gt_offset"], a["values"], M, K, dense
        )
        return dense

    @property
    def nnz(self) -> int:
        return int(self._per_strip().sum())

    @classmethod
    def expected_nbytes(cls, M: int, K: int, sparsity: float) -> float:
        return float(tca_bme_bytes(M, K, sparsity))

    @property
    def groups(self) -> int:
        """Number of GroupTiles."""
        M, K = self.shape
        return -(-M // GROUP) * -(-K // GROUP)

    def _per_strip(self) -> Tensor:
        """Non-zeros of each strip [4 * GT], counted in the bitmaps."""
        counts = np.bitwise_count(self.arrays["bitmap"].numpy().view(np.uint64))
        return torch.from_numpy(counts.reshape(-1, 16).sum(1, dtype=np.int32))

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
        strip_offset, per_group = _within_group(self._per_strip())
        padded = _round_up(per_group, ALIGN)
        gt_offset = offsets_from_counts(padded, "non-zeros of A, padded")
        self.require(torch.equal(a["gt_offset"], gt_offset), "gt_offset does not match the bitmaps")
        self.require(
            torch.equal(a["strip_offset"], strip_offset), "strip_offset does not match the bitmaps"
        )
        self.require(
            a["values"].numel() == int(gt_offset[-1]),
            f"values has {a['values'].numel()} elements, the bitmaps need {int(gt_offset[-1])}",
        )
        most = int(_round_up(per_group.max(), 64))
        self.require(int(a["max_nnz"]) == most, f"max_nnz is {int(a['max_nnz'])}, should be {most}")
        self._check_values(gt_offset[:-1] + per_group, padded - per_group)
        self.require(not self._bits_outside(), "bitmap has bits outside of the M x K matrix")

    def _check_values(self, pad_start: Tensor, pad_length: Tensor) -> None:
        """Padding is +0, and nothing else is."""
        is_zero = bits(self.arrays["values"]) == 0
        pads = torch.repeat_interleave(pad_start - torch.cumsum(pad_length, 0) + pad_length, pad_length)
        pads = pads + torch.arange(pads.numel())
        self.require(bool(is_zero[pads].all()), "values has a non-zero in its padding")
        self.require(
            int(is_zero.sum()) == pads.numel(), "values stores a +0 that the bitmap calls non-zero"
        )

    def _bits_outside(self) -> bool:
        """True if a bitmap marks an element of the padding below M or right of K."""
        M, K = self.shape
        groups_k = -(-K // GROUP)
        # [GT row, GT column, strip, TCTile, right half, lower half]: the nesting of the bitmaps
        nested = self.arrays["bitmap"].reshape(-1, groups_k, 4, 4, 2, 2)
        last_row, last_col = nested[-1].numpy(), nested[:, -1].numpy()
        rows_left = M % GROUP or GROUP
        cols_left = K % GROUP or GROUP
        row0 = 16 * np.arange(4)[:, None] + 8 * np.arange(2)  # [strip, lower half]
        col0 = 16 * np.arange(4)[:, None] + 8 * np.arange(2)  # [TCTile, right half]
        below = _mask(rows_left - row0, by_row=True)[None, :, None, None, :]
        right = _mask(cols_left - col0, by_row=False)[None, None, :, :, None]
        return bool((last_row & ~below).any() or (last_col & ~right).any())


def _mask(inside: np.ndarray, by_row: bool) -> np.ndarray:
    """Bitmap [..., int64] of the first `inside` (clipped to 0..8) rows or columns of an 8x8 tile."""
    lines = np.arange(8) < np.clip(inside, 0, 8)[..., None]  # [..., 8]
    grid = lines[..., :, None] if by_row else lines[..., None, :]
    grid = np.broadcast_to(grid, (*inside.shape, 8, 8)).reshape(*inside.shape, 64)
    return np.packbits(grid, axis=-1, bitorder="little").view(np.int64)[..., 0]


def _within_group(per_strip: Tensor) -> tuple[Tensor, Tensor]:
    """Strip offsets inside their GroupTile [4 * GT] and the non-zeros of each GroupTile [GT]."""
    by_group = per_strip.reshape(-1, 4)
    ends = torch.cumsum(by_group, 1, dtype=torch.int32)
    return (ends - by_group).flatten(), ends[:, -1]


def _round_up(count: Tensor, multiple: int) -> Tensor:
    return (count + multiple - 1) // multiple * multiple
