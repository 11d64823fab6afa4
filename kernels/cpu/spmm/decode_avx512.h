// AVX-512 decoding: vpexpandw turns 32 bits of a bitmap and its packed values into 4 rows x 8
// columns, and a 4x4 transpose of four of those makes 4 pair lines.
#pragma once
#include <immintrin.h>

#include "decode.h"

namespace lscd {
namespace {

// quad[q]: rows 4q..4q+3, one 128-bit part each, of 8 columns = 4 pairs. lines[p]: pair p of all 16
// rows; within part r the quads 0-3 side by side, which is the strip's lane order.
inline void transpose_quads(const __m512i quad[4], u16* lines) {
    __m512i a = _mm512_unpacklo_epi32(quad[0], quad[1]), b = _mm512_unpackhi_epi32(quad[0], quad[1]);
    __m512i c = _mm512_unpacklo_epi32(quad[2], quad[3]), d = _mm512_unpackhi_epi32(quad[2], quad[3]);
    _mm512_store_si512(lines, _mm512_unpacklo_epi64(a, c));
    _mm512_store_si512(lines + 32, _mm512_unpackhi_epi64(a, c));
    _mm512_store_si512(lines + 64, _mm512_unpacklo_epi64(b, d));
    _mm512_store_si512(lines + 96, _mm512_unpackhi_epi64(b, d));
}

struct Avx512BitmapStep {
    static const u16* step(const u64* bitmap, const u16* values, u16* lines) {
        _mm_prefetch((const char*)(values + AHEAD), _MM_HINT_T0);
        _mm_prefetch((const char*)(values + AHEAD + 32), _MM_HINT_T0);
        _mm_prefetch((const char*)(bitmap + AHEAD / 8), _MM_HINT_T0);
        u64 top = bitmap[0], bottom = bitmap[1];
        const u16* v1 = values + _mm_popcnt_u32(u32(top));
        const u16* v2 = values + _mm_popcnt_u64(top);
        const u16* v3 = v2 + _mm_popcnt_u32(u32(bottom));
        const __m512i quad[4] = {expand(u32(top), values), expand(u32(top >> 32), v1),
                                 expand(u32(bottom), v2), expand(u32(bottom >> 32), v3)};
        transpose_quads(quad, lines);
        return v2 + _mm_popcnt_u64(bottom);
    }

    // 4 rows x 8 columns. Zen 4 and 5 make a zero-masked expansion wait for the last writer of its
    // result (llvm/llvm-project issue 206849); merging into a zero of its own avoids that, and the
    // compiler must not see through it. They are also slower to expand straight from memory.
    static __m512i expand(u32 mask, const u16* values) {
        __m512i zero = _mm512_setzero_si512(), packed = _mm512_loadu_si512(values);
        __asm__("" : "+v"(zero), "+v"(packed));
        return _mm512_mask_expand_epi16(zero, mask, packed);
    }

    static constexpr i64 AHEAD = 1024;  // elements: half a GroupTile
};

struct Avx512DenseStep {
    static void step(const u16* rows, i64 stride, u16* lines) {
        for (i64 half = 0; half < BLOCK_K; half += 32) {  // one cache line of each row at a time
            alignas(64) u16 staged[16 * 32];
            for (i64 r = 0; r < 16; r++) {
                const u16* line = rows + r * stride + half;
                _mm_prefetch((const char*)(line + AHEAD), _MM_HINT_T0);
                _mm512_store_si512(staged + r * 32, _mm512_loadu_si512(line));
            }
            for (i64 k = 0; k < 32; k += 8) {
                const __m512i quad[4] = {gather4(staged + k), gather4(staged + k + 4 * 32),
                                         gather4(staged + k + 8 * 32), gather4(staged + k + 12 * 32)};
                transpose_quads(quad, lines + (half + k) / 2 * 32);
            }
        }
    }

    static constexpr i64 AHEAD = 192;  // elements of each row

    // 8 columns of 4 consecutive staged rows, one 128-bit part each.
    static __m512i gather4(const u16* staged) {
        __m512i quad = _mm512_castsi128_si512(_mm_load_si128((const __m128i*)staged));
        quad = _mm512_mask_broadcast_i32x4(quad, 0x00f0, _mm_load_si128((const __m128i*)(staged + 32)));
        quad = _mm512_mask_broadcast_i32x4(quad, 0x0f00, _mm_load_si128((const __m128i*)(staged + 64)));
        return _mm512_mask_broadcast_i32x4(quad, 0xf000, _mm_load_si128((const __m128i*)(staged + 96)));
    }
};

}  // namespace
}  // namespace lscd
