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
#include "../common.h"

using namespace lscd;

namespace {

constexpr i64 GROUP = 64, BITMAPS_PER_GROUP = 64, BITMAPS_PER_STRIP = 16;

struct Corner {
    i64 row, col;
};

// Top-left corner of bitmap tile b (0..63) inside its GroupTile.
inline Corner corner(i64 b) {
    i64 strip = b / BITMAPS_PER_STRIP, tile = b / 4 % 4, quadrant = b % 4;
    return {16 * strip + 8 * (quadrant % 2), 16 * tile + 8 * (quadrant / 2)};
}

inline u64 bitmap_of(const u16* dense, i64 M, i64 K, i64 row, i64 col) {
    u64 bitmap = 0;
    i64 rows = min(8, M - row), cols = min(8, K - col);
    for (i64 r = 0; r < rows; r++)
        for (i64 c = 0; c < cols; c++)
            bitmap |= u64(dense[(row + r) * K + col + c] != 0) << (8 * r + c);
    return bitmap;
}

// Calls visit(group, bitmap index inside the group, row, col) for every bitmap tile, group by group.
template <class Visit>
void for_each_bitmap(i64 M, i64 K, Visit visit) {
    i64 groups_k = ceil_div(K, GROUP), groups = ceil_div(M, GROUP) * groups_k;
#pragma omp parallel for schedule(static)
    for (i64 g = 0; g < groups; g++)
        for (i64 b = 0; b < BITMAPS_PER_GROUP; b++) {
            Corner at = corner(b);
            visit(g, b, g / groups_k * GROUP + at.row, g % groups_k * GROUP + at.col);
        }
}

}  // namespace

// bitmap [64 * groups], nnz_per_strip [4 * groups]: pass one, which sizes the values.
LSCD_EXPORT void lscd_tca_bme_count(const u16* dense, i64 M, i64 K, u64* bitmap, i32* nnz_per_strip) {
    i64 strips = ceil_div(M, GROUP) * ceil_div(K, GROUP) * 4;
    memset(nnz_per_strip, 0, sizeof(i32) * strips);
    for_each_bitmap(M, K, [=](i64 g, i64 b, i64 row, i64 col) {
        u64 bits = bitmap_of(dense, M, K, row, col);
        bitmap[g * BITMAPS_PER_GROUP + b] = bits;
        nnz_per_strip[g * 4 + b / BITMAPS_PER_STRIP] += __builtin_popcountll(bits);
    });
}

// values [gt_offset[groups]], zero on entry: pass two.
LSCD_EXPORT void lscd_tca_bme_pack(const u16* dense, i64 M, i64 K, const u64* bitmap,
                                   const i32* gt_offset, u16* values) {
    i64 groups = ceil_div(M, GROUP) * ceil_div(K, GROUP);
#pragma omp parallel for schedule(static)
    for (i64 g = 0; g < groups; g++) {
        u16* out = values + gt_offset[g];
        i64 groups_k = ceil_div(K, GROUP);
        const u16* origin = dense + g / groups_k * GROUP * K + g % groups_k * GROUP;
        for (i64 b = 0; b < BITMAPS_PER_GROUP; b++) {
            const u16* tile = origin + corner(b).row * K + corner(b).col;
            for (u64 left = bitmap[g * BITMAPS_PER_GROUP + b]; left; left &= left - 1) {
                int bit = __builtin_ctzll(left);
                *out++ = tile[bit / 8 * K + bit % 8];
            }
        }
    }
}

// dense [M, K], zero on entry.
LSCD_EXPORT void lscd_tca_bme_unpack(const u64* bitmap, const i32* gt_offset, const u16* values,
                                     i64 M, i64 K, u16* dense) {
    i64 groups = ceil_div(M, GROUP) * ceil_div(K, GROUP), groups_k = ceil_div(K, GROUP);
#pragma omp parallel for schedule(static)
    for (i64 g = 0; g < groups; g++) {
        const u16* in = values + gt_offset[g];
        u16* origin = dense + g / groups_k * GROUP * K + g % groups_k * GROUP;
        for (i64 b = 0; b < BITMAPS_PER_GROUP; b++) {
            u16* tile = origin + corner(b).row * K + corner(b).col;
            for (u64 left = bitmap[g * BITMAPS_PER_GROUP + b]; left; left &= left - 1) {
                int bit = __builtin_ctzll(left);
                tile[bit / 8 * K + bit % 8] = *in++;
            }
        }
    }
}
