// TCA-BME (SpInfer, section 4): 8x8 bitmaps nested in tensor-core order.
//
//   GroupTile 64x64, row-major           one GroupTile                 one TCTile 16x16
//   +----+----+----+                     strip 0: T0 T1 T2 T3          +----+----+
//   | G0 | G1 | .. |                     strip 1: T0 T1 T2 T3          | TL | TR |   bitmap order
//   +----+----+----+                     strip 2: T0 T1 T2 T3          +----+----+   TL BL TR BR:
//   | .. |                               strip 3: T0 T1 T2 T3          | BL | BR |   the registers
//                                        (16 rows each)                +----+----+   0-3 of mma's A
//
// Bit 8r+c of a bitmap says that element (r, c) of its 8x8 tile is non-zero; values follow the same
// nesting, row-major within 8x8, and each GroupTile's run is padded with zeros to 16 bytes.
#include "scan.h"

using namespace lscd;

namespace {

constexpr i64 GROUP = 64, BITMAPS_PER_GROUP = 64, BITMAPS_PER_STRIP = 16;

// Where a GroupTile lies in a [M, K] matrix, and how much of it does.
struct Frame {
    i64 row, col, rows, cols;
    Frame(i64 M, i64 K, i64 g)
        : row(g / ceil_div(K, GROUP) * GROUP), col(g % ceil_div(K, GROUP) * GROUP),
          rows(min(GROUP, M - row)), cols(min(GROUP, K - col)) {}
};

inline i64 groups_of(i64 M, i64 K) { return ceil_div(M, GROUP) * ceil_div(K, GROUP); }

// Row and column of bitmap b (0..63) inside its GroupTile, in 8x8 tiles; and the way back.
inline i64 tile_row(i64 b) { return b / BITMAPS_PER_STRIP * 2 + b % 2; }
inline i64 tile_col(i64 b) { return b / 4 % 4 * 2 + b / 2 % 2; }
inline i64 bitmap_at(i64 tile_row, i64 tile_col) {
    return tile_row / 2 * BITMAPS_PER_STRIP + tile_col / 2 * 4 + tile_col % 2 * 2 + tile_row % 2;
}

// Bitmap of the first `rows` rows and `cols` columns of an 8x8 tile; both may be out of 0..8.
inline u64 corner_mask(i64 rows, i64 cols) {
    if (rows <= 0 || cols <= 0) return 0;
    u64 line = (u64(1) << min(cols, 8)) - 1, all_rows = line * 0x0101010101010101;
    return rows >= 8 ? all_rows : all_rows & ((u64(1) << 8 * rows) - 1);
}

// Calls visit(value, weight) for each set bit of a GroupTile's bitmaps: the number of the value,
// and its offset from the GroupTile's first weight.
template <class Visit>
inline void for_each_value(const u64* bitmap, i64 K, Visit visit) {
    i64 value = 0;
    for (i64 b = 0; b < BITMAPS_PER_GROUP; b++) {
        i64 corner = 8 * (tile_row(b) * K + tile_col(b));
        for_each_bit(bitmap[b], [&](i64 bit) { visit(value++, corner + bit / 8 * K + bit % 8); });
    }
}

}  // namespace

// bitmap [64 * groups]: pass one, a row of eight tiles at a time.
LSCD_EXPORT void lscd_tca_bme_mark(const u16* dense, i64 M, i64 K, u64* bitmap) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 g = 0; g < groups_of(M, K); g++) {
        Frame at(M, K, g);
        u64* out = bitmap + g * BITMAPS_PER_GROUP;
        memset(out, 0, sizeof(u64) * BITMAPS_PER_GROUP);
        for (i64 r = 0; r < at.rows; r++) {
            u64 row = nonzero_mask(dense + (at.row + r) * K + at.col, at.cols);
            for (i64 c = 0; c < 8; c++)
                out[bitmap_at(r / 8, c)] |= (row >> 8 * c & 0xff) << 8 * (r % 8);
        }
    }
}

// nnz [strips]: non-zeros of each run of 16 bitmaps.
LSCD_EXPORT void lscd_tca_bme_count(const u64* bitmap, i64 strips, i32* nnz) {
#pragma omp parallel for schedule(static) if (large(strips * 16 * GROUP))
    for (i64 s = 0; s < strips; s++) {
        nnz[s] = 0;
        for (i64 b = 0; b < BITMAPS_PER_STRIP; b++)
            nnz[s] += __builtin_popcountll(bitmap[s * BITMAPS_PER_STRIP + b]);
    }
}

// values [gt_offset[groups]]: pass two.
LSCD_EXPORT void lscd_tca_bme_pack(const u16* dense, i64 M, i64 K, const u64* bitmap,
                                   const i32* gt_offset, u16* values) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 g = 0; g < groups_of(M, K); g++) {
        Frame at(M, K, g);
        const u16* origin = dense + at.row * K + at.col;
        u16* out = values + gt_offset[g];
        i64 nnz = 0;
        for_each_value(bitmap + g * BITMAPS_PER_GROUP, K, [&](i64 value, i64 weight) {
            out[value] = origin[weight];
            nnz = value + 1;
        });
        for (i64 i = nnz; i < gt_offset[g + 1] - gt_offset[g]; i++) out[i] = 0;
    }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_tca_bme_unpack(const u64* bitmap, const i32* gt_offset, const u16* values,
                                     i64 M, i64 K, u16* dense) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 g = 0; g < groups_of(M, K); g++) {
        Frame at(M, K, g);
        u16* origin = dense + at.row * K + at.col;
        const u16* in = values + gt_offset[g];
        for_each_value(bitmap + g * BITMAPS_PER_GROUP, K,
                       [&](i64 value, i64 weight) { origin[weight] = in[value]; });
    }
}

// Problem by GroupTile, of an encoding whose offsets match its bitmaps: 1 a bit outside of the
// matrix, 2 a stored +0, 3 a non-zero in the padding.
LSCD_EXPORT void lscd_tca_bme_check(const u64* bitmap, const i32* gt_offset, const u16* values,
                                    i64 M, i64 K, i64* found) {
    first_problem(groups_of(M, K), M * K, found, [=](i64 g) {
        Frame at(M, K, g);
        i64 nnz = 0;
        bool outside = false;
        for (i64 b = 0; b < BITMAPS_PER_GROUP; b++) {
            u64 bits = bitmap[g * BITMAPS_PER_GROUP + b];
            nnz += __builtin_popcountll(bits);
            outside |= bits & ~corner_mask(at.rows - 8 * tile_row(b), at.cols - 8 * tile_col(b));
        }
        const u16* run = values + gt_offset[g];
        if (outside) return 1;
        if (any_zero(run, nnz)) return 2;
        return any_nonzero(run + nnz, gt_offset[g + 1] - gt_offset[g] - nnz) ? 3 : 0;
    });
}
