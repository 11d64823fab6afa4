"""Bytes of every format as a function of (M, K, sparsity), and what follows from them.

The formulas are the papers' own (and ours of `our_formats`), for 2-byte values (fp16, bf16) and
zeros placed at random.
They are the single source: ``expected_nbytes`` of the formats and every figure read them here.
`stored_extra_bytes` says what the layouts hold beyond the published formulas.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lab_utils.analysis import our_formats
from lab_utils.analysis.checked import checked, plain, sides

VALUE_BYTES = 2  # fp16 and bf16
OFFSET_BYTES = 4  # row pointers, column indices, tile offsets: int32
TILE_OPTIONS = {"tiled_csl": "tile", "tca_bme": "group_tile"}
# Average alignment of a tile with many non-zeros: 1½ words of 4 bytes, 3½ values of 2 bytes.
PADDING_BYTES = {"tiled_csl": 6.0, "tca_bme": 7.0}


def dense_bytes(M: int, K: int, sparsity: ArrayLike = 0.0) -> float | np.ndarray:
    """Bytes of a dense 2-byte matrix, 2·M·K: the numerator of every compression ratio."""
    M, K, s = checked(M, K, sparsity)
    return plain(VALUE_BYTES * M * K + 0 * s)


def csr_bytes(M: int, K: int, sparsity: ArrayLike) -> float | np.ndarray:
    """Bytes of CSR: 6·NNZ + 4·(M+1), a 2-byte value and a 4-byte column each (SpInfer eq. 3)."""
    M, K, s = checked(M, K, sparsity)
    return plain(_csr(M, M * K * (1 - s)))


def tiled_csl_bytes(
    M: int, K: int, sparsity: ArrayLike, *, tile: tuple[int, int] = (128, 64)
) -> float | np.ndarray:
    """Bytes of Tiled-CSL: 4·NT + 4·NNZ, value and 16-bit location in one word (SpInfer eq. 2).

    `tile` is (rows, columns) of a storage tile, 128×64 in Flash-LLM. A 16-bit location reaches
    65536 places, so a larger tile raises ValueError.
    """
    M, K, s = checked(M, K, sparsity)
    rows, columns = sides("tile", tile)
    if rows * columns > 1 << 16:
        raise ValueError(f"tile={tile}: rows × columns must be at most 65536 (16-bit locations)")
    return plain(OFFSET_BYTES * _tiles(M, K, (rows, columns)) + 4 * M * K * (1 - s))


def tca_bme_bytes(
    M: int,
    K: int,
    sparsity: ArrayLike,
    *,
    bitmap_tile: tuple[int, int] = (8, 8),
    group_tile: tuple[int, int] = (64, 64),
) -> float | np.ndarray:
    """Bytes of TCA-BME: 4·(NGT+1) + 8·NBT + 2·NNZ (SpInfer eq. 9, NBT counted over K).

    Each bitmap occupies whole machine words: 1, 2 or 4 bytes, or a multiple of 8. One offset
    per group tile is all the indexing there is, the rest is counted from the bits; a group tile
    of one bitmap tile therefore shows what an explicit offset per bitmap would cost.
    """
    M, K, s = checked(M, K, sparsity)
    group_tile, bitmap_tile = sides("group_tile", group_tile), sides("bitmap_tile", bitmap_tile)
    groups = _tiles(M, K, group_tile)
    if any(g % b for g, b in zip(group_tile, bitmap_tile, strict=True)):
        raise ValueError(
            f"group_tile={group_tile} must be a whole number of bitmap tiles {bitmap_tile}"
        )
    # Edges are padded to whole bitmap tiles here; the formula has no opinion on ragged shapes.
    bitmaps = _tiles(M, K, bitmap_tile) * _word_bytes(bitmap_tile[0] * bitmap_tile[1])
    return plain(OFFSET_BYTES * (groups + 1) + bitmaps + VALUE_BYTES * M * K * (1 - s))


def two_four_bytes(M: int, K: int, sparsity: ArrayLike = 0.5) -> float | np.ndarray:
    """Bytes of 2:4: (2 + ¼)·M·K/2, two values and two 2-bit indices for every four weights.

    The size is the same at every sparsity. The format holds a matrix without loss only where no
    aligned group of four along K has more than two non-zeros.
    """
    M, K, s = checked(M, K, sparsity)
    return plain((VALUE_BYTES + 0.25) * M * K / 2 + 0 * s)


def sparta_bytes(M: int, K: int, sparsity: ArrayLike) -> float | np.ndarray:
    """Bytes of SparTA: the 2:4 part plus CSR of what does not fit it (SpInfer eq. 4)."""
    M, K, s = checked(M, K, sparsity)
    return plain(two_four_bytes(M, K, s) + _csr(M, sparta_overflow(M, K, s)))


def sparta_overflow(M: int, K: int, sparsity: ArrayLike) -> float | np.ndarray:
    """Expected non-zeros beyond two in each aligned group of four along K (SpInfer eq. 4)."""
    M, K, s = checked(M, K, sparsity)
    d = 1 - s
    return plain(M * K / 4 * (4 * d**3 * s + 2 * d**4))


FORMULAS: dict[str, Callable[..., float | np.ndarray]] = {
    "dense": dense_bytes,
    "csr": csr_bytes,
    "tiled_csl": tiled_csl_bytes,
    "tca_bme": tca_bme_bytes,
    "2:4": two_four_bytes,
    "sparta": sparta_bytes,
} | our_formats.FORMULAS


def format_bytes(format: str, M: int, K: int, sparsity: ArrayLike, **options) -> float | np.ndarray:
    """Bytes of `format` by its published formula, or by ours; `options` are keywords of that."""
    if format not in FORMULAS:
        raise ValueError(f"format={format!r} is unknown; allowed: {', '.join(FORMULAS)}")
    return FORMULAS[format](M, K, sparsity, **options)


def compression_ratio(
    format: str, M: int, K: int, sparsity: ArrayLike, **options
) -> float | np.ndarray:
    """Dense bytes over encoded bytes: above 1 the format saves memory (SpInfer eq. 1)."""
    return dense_bytes(M, K, sparsity) / format_bytes(format, M, K, sparsity, **options)


def optimal_ratio(sparsity: ArrayLike) -> float | np.ndarray:
    """Compression ratio of a format without indices, 1/(1−s); infinite at s = 1."""
    _, _, s = checked(1, 1, sparsity)
    with np.errstate(divide="ignore"):
        return plain(np.divide(1.0, 1 - s))


def break_even(format: str, M: int, K: int, **options) -> float | None:
    """Sparsity at which `format` is exactly as large as dense (CR = 1).

    None where there is no such point: the size does not depend on sparsity (dense, 2:4), or the
    format stays on one side of dense (CSR of a matrix with very few columns never gets there).
    """

    def excess(s: float) -> float:
        return format_bytes(format, M, K, s, **options) - dense_bytes(M, K)

    low, high = 0.0, 1.0
    if not excess(low) > 0 > excess(high):
        return None
    while high - low > 1e-12:  # formulas fall as sparsity grows, simulated ones nearly
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def bytes_per_weight(format: str, M: int, K: int, sparsity: float) -> dict[str, float]:
    """What `format` spends on one weight of the dense matrix, in bytes, by purpose.

    "values" are non-zeros (for SparTA and 2:4 also the slots that hold zeros, for zero-row 2:4 the
    zeros that end chunks, for lane 2:4, bitmap and coded strips those of their lines), "indices"
    say where they are, "offsets" where rows or tiles begin. Their sum is `format_bytes` / (M·K).
    """
    M, K, s = checked(M, K, sparsity)
    if format in our_formats.PARTS:
        parts = our_formats.PARTS[format](M, K, np.float64(1 - s))
        return {part: float(nbytes) / (M * K) for part, nbytes in parts.items()}
    total = format_bytes(format, M, K, s)
    kept = M * K * (1 - s)
    slots, overflow = M * K / 2, sparta_overflow(M, K, s)
    values, indices = {
        "dense": (VALUE_BYTES * M * K, 0),
        "csr": (VALUE_BYTES * kept, OFFSET_BYTES * kept),
        "tiled_csl": (VALUE_BYTES * kept, 2 * kept),
        "tca_bme": (VALUE_BYTES * kept, _tiles(M, K, (8, 8)) * 8),
        "2:4": (VALUE_BYTES * slots, 0.25 * slots),
        "sparta": (
            VALUE_BYTES * (slots + overflow),
            0.25 * slots + OFFSET_BYTES * overflow,
        ),
    }[format]
    parts = {"values": values, "indices": indices, "offsets": total - values - indices}
    return {part: float(nbytes) / (M * K) for part, nbytes in parts.items()}


def tile_overhead(
    format: str, M: int, K: int, sparsity: float, tile: tuple[int, int], *, padding: bool = False
) -> float:
    """Share of the encoded bytes, 0 to 1, that a tile costs whatever it holds.

    `format` is "tiled_csl" or "tca_bme" (`tile` is its group tile). A tile costs its 4-byte offset;
    with `padding` also the average alignment of its values (see `stored_extra_bytes`).
    """
    if format not in TILE_OPTIONS:
        raise ValueError(f"format={format!r} has no tiles; allowed: {', '.join(TILE_OPTIONS)}")
    total = format_bytes(format, M, K, sparsity, **{TILE_OPTIONS[format]: tile})
    M, K, _ = checked(M, K, sparsity)
    tiles = _tiles(M, K, sides(TILE_OPTIONS[format], tile))
    pad = PADDING_BYTES[format] * tiles if padding else 0
    return (OFFSET_BYTES * tiles + pad) / (total + pad)


def stored_extra_bytes(format: str, M: int, K: int) -> float:
    """Expected bytes that the stored layout adds to the published formula.

    Tiled-CSL pads each tile to 4 words and keeps two more offsets; TCA-BME pads the values of
    each group tile to 16 bytes, and keeps four strip offsets per group tile and one 4-byte
    maximum. The averages hold where a tile has many non-zeros. Zero for the other formats.
    """
    if format not in FORMULAS:
        raise ValueError(f"format={format!r} is unknown; allowed: {', '.join(FORMULAS)}")
    M, K, _ = checked(M, K, 0.0)
    if format == "tiled_csl":
        return PADDING_BYTES[format] * _tiles(M, K, (128, 64)) + 2 * OFFSET_BYTES
    if format == "tca_bme":
        return (4 * OFFSET_BYTES + PADDING_BYTES[format]) * _tiles(M, K, (64, 64)) + 4
    return 0.0


def _csr(M: int, nnz: np.ndarray) -> np.ndarray:
    return (VALUE_BYTES + OFFSET_BYTES) * nnz + OFFSET_BYTES * (M + 1)


def _tiles(M: int, K: int, tile: tuple[int, int]) -> int:
    rows, columns = tile
    return -(-M // rows) * -(-K // columns)


def _word_bytes(bits: int) -> int:
    if bits > 64:
        return 8 * -(-bits // 64)
    return next(size for size in (1, 2, 4, 8) if bits <= 8 * size)
