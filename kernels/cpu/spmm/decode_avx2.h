// AVX2 decoding: a byte of a bitmap is a row of 8 columns; a table turns it into a pshufb control
// that spreads the row's packed values to their columns.
#pragma once
#include <immintrin.h>

#include "decode.h"

namespace lscd {
namespace {

struct SpreadTable {
    alignas(64) uint8_t control[256][16];
    SpreadTable() {
        for (int byte = 0; byte < 256; byte++)
            for (int k = 0, used = 0; k < 8; k++) {
                bool present = byte >> k & 1;
                control[byte][2 * k] = present ? 2 * used : 0x80;  // 0x80: pshufb writes zero
                control[byte][2 * k + 1] = present ? 2 * used + 1 : 0x80;
                used += present;
            }
    }
};
const SpreadTable SPREAD;

// row[r]: 8 columns = 4 pairs of row r. lines[p]: pair p of all rows, in the strip's lane order.
inline void transpose_rows(const __m128i row[16], u16* lines) {
    for (i64 r = 0; r < 4; r++) {
        __m128i a = _mm_unpacklo_epi32(row[r], row[r + 4]), b = _mm_unpackhi_epi32(row[r], row[r + 4]);
        __m128i c = _mm_unpacklo_epi32(row[r + 8], row[r + 12]);
        __m128i d = _mm_unpackhi_epi32(row[r + 8], row[r + 12]);
        __m128i* out = (__m128i*)(lines + r * 8);
        _mm_store_si128(out, _mm_unpacklo_epi64(a, c));
        _mm_store_si128(out + 4, _mm_unpackhi_epi64(a, c));
        _mm_store_si128(out + 8, _mm_unpacklo_epi64(b, d));
        _mm_store_si128(out + 12, _mm_unpackhi_epi64(b, d));
    }
}

struct Avx2BitmapStep {
    static const u16* step(const u64* bitmap, const u16* values, u16* lines) {
        __m128i row[16];
        for (i64 r = 0; r < 16; r++) {
            u32 byte = u32(bitmap[r / 8] >> (8 * (r % 8)) & 0xff);
            __m128i control = _mm_load_si128((const __m128i*)SPREAD.control[byte]);
            row[r] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i*)values), control);
            values += _mm_popcnt_u32(byte);
        }
        transpose_rows(row, lines);
        return values;
    }
};

struct Avx2DenseStep {
    static void step(const u16* rows, i64 stride, u16* lines) {
        for (i64 k = 0; k < BLOCK_K; k += 8) {
            __m128i row[16];
            for (i64 r = 0; r < 16; r++)
                row[r] = _mm_loadu_si128((const __m128i*)(rows + r * stride + k));
            transpose_rows(row, lines + k / 2 * 32);
        }
    }
};

}  // namespace
}  // namespace lscd
