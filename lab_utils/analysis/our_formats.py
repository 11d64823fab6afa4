"""Bytes of the formats that are no paper's but ours as a function of (M, K, sparsity).

`lab_utils.analysis.compression` has them beside the others.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lab_utils.analysis import (
    bitmap_strips,
    coded_strips,
    lane_24_strips,
    zero_row_24_expected,
    zero_row_24_strips,
)
from lab_utils.analysis.checked import checked, plain
from lab_utils.analysis.zero_row_24 import check_kind


def zero_row_24_bytes(
    M: int,
    K: int,
    sparsity: ArrayLike,
    *,
    streams: str | None = None,
    slice_cols: int | None = None,
    levels: int | None = None,
) -> float | np.ndarray:
    """Bytes of zero-row 2:4: 2·NNZ + 452·NC + 512·NE, chunks and extra chunks, and their rounding.

    Pairs have chunks of 580 bytes, and zeros beside lone values on top; nested ones 836 and 768;
    sixes 836, but 452 one of 48 columns. All three are options of the format, None what `encode`
    chooses; `lab_utils.analysis.zero_row_24_expected` derives NC and NE. Bytes that packed
    streams skip to avoid bank conflicts are not in it: 1 to 2 %.
    """
    M, K, s = checked(M, K, sparsity)
    kind = check_kind(streams, levels)
    return plain(sum(zero_row_24_expected.parts(M, K, 1 - s, kind, slice_cols, levels).values()))


def zero_row_24_strips_bytes(
    M: int, K: int, sparsity: ArrayLike, *, levels: int | None = None
) -> float | np.ndarray:
    """Bytes of zero-row 2:4 in strips: 2·NNZ + 590·NC + 32·NS, chunks and steps of entries.

    Beside them zeros of paired streams. `levels` is an option of the format, by default as there;
    `lab_utils.analysis.zero_row_24_strips` derives NC and NS. Bytes that streams skip to avoid bank
    conflicts come on top: 4 % on average, 10 % at most.
    """
    M, K, s = checked(M, K, sparsity)
    return plain(sum(zero_row_24_strips.parts(M, K, 1 - s, levels).values()))


def lane_24_strips_bytes(M: int, K: int, sparsity: ArrayLike) -> float | np.ndarray:
    """Bytes of 2:4 in strips, words for each lane: 812·NC + 128·NL + 40·NS, and paddings.

    NC chunks with their offsets, NL lines and NS steps of entries: the last two are the mean of a
    simulation (`lab_utils.analysis.lane_24_strips`), some milliseconds for each sparsity.
    """
    M, K, s = checked(M, K, sparsity)
    return plain(sum(lane_24_strips.parts(M, K, 1 - s).values()))


def bitmap_strips_bytes(M: int, K: int, sparsity: ArrayLike) -> float | np.ndarray:
    """Bytes of bitmaps and streams of values in strips: 644·NC + 128·NL, and 8.

    NC chunks with their offsets, NL lines: the mean of a simulation
    (`lab_utils.analysis.bank_strips`), some milliseconds for each sparsity.
    """
    M, K, s = checked(M, K, sparsity)
    return plain(sum(bitmap_strips.parts(M, K, 1 - s).values()))


def coded_strips_bytes(M: int, K: int, sparsity: ArrayLike) -> float | np.ndarray:
    """Bytes of codes and streams of words in strips: 772·NC + 128·NL, and 8.

    NC chunks with their offsets, NL lines: the mean of a simulation, as of bitmap strips.
    """
    M, K, s = checked(M, K, sparsity)
    return plain(sum(coded_strips.parts(M, K, 1 - s).values()))


FORMULAS: dict[str, Callable[..., float | np.ndarray]] = {
    "zero_row_24": zero_row_24_bytes,
    "zero_row_24_strips": zero_row_24_strips_bytes,
    "lane_24_strips": lane_24_strips_bytes,
    "bitmap_strips": bitmap_strips_bytes,
    "coded_strips": coded_strips_bytes,
}
# By purpose.
PARTS: dict[str, Callable[..., dict[str, np.ndarray]]] = {
    "zero_row_24": zero_row_24_expected.parts,
    "zero_row_24_strips": zero_row_24_strips.parts,
    "lane_24_strips": lane_24_strips.parts,
    "bitmap_strips": bitmap_strips.parts,
    "coded_strips": coded_strips.parts,
}
