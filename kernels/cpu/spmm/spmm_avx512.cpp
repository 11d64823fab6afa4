// AVX-512 with VBMI2 (Ice Lake, Zen 4 and later): fp32 multiply-adds.
#include "decode_avx512.h"
#include "spmm.h"

namespace lscd {
namespace {

template <Dtype>
struct Avx512Widen;

template <>
struct Avx512Widen<Dtype::bf16> {
    static void widen(const u16* lines, i64 count, float* wide) {
        const __m512i high_half = _mm512_set1_epi32(i32(0xffff0000));
        for (i64 pair = 0; pair < count; pair++) {
            __m512i line = _mm512_load_si512(lines + pair * 32);
            _mm512_store_si512(wide + pair * 32, _mm512_slli_epi32(line, 16));
            _mm512_store_si512(wide + pair * 32 + 16, _mm512_and_si512(line, high_half));
        }
    }
};

template <>
struct Avx512Widen<Dtype::fp16> {
    static void widen(const u16* lines, i64 count, float* wide) {
        for (i64 pair = 0; pair < count; pair++) {
            __m512i line = _mm512_load_si512(lines + pair * 32);
            __m256i even = _mm512_cvtepi32_epi16(line);
            __m256i odd = _mm512_cvtepi32_epi16(_mm512_srli_epi32(line, 16));
            _mm512_store_ps(wide + pair * 32, _mm512_cvtph_ps(even));
            _mm512_store_ps(wide + pair * 32 + 16, _mm512_cvtph_ps(odd));
        }
    }
};

struct Avx512 {
    static constexpr i64 MAX_NB = 16;  // registers of sums, of 32
    using BitmapStep = Avx512BitmapStep;
    using DenseStep = Avx512DenseStep;
    template <i64 NB, Dtype D>
    using Multiplier = Fp32Multiplier<NB, 8, D, Avx512Widen<D>>;
};

}  // namespace

void spmm_avx512(const Problem& p) { spmm_any_dtype<Avx512>(p); }
}  // namespace lscd
