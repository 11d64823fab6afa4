// AVX2 with FMA and F16C (Haswell, Zen and later): fp32 multiply-adds.
#include "decode_avx2.h"
#include "spmm.h"

namespace lscd {
namespace {

template <Dtype>
struct Avx2Widen;

template <>
struct Avx2Widen<Dtype::bf16> {
    static void widen(const u16* lines, i64 count, float* wide) {
        const __m256i high_half = _mm256_set1_epi32(i32(0xffff0000));
        for (i64 pair = 0; pair < count; pair++)
            for (i64 lane = 0; lane < STRIP_ROWS; lane += 8) {
                __m256i line = _mm256_load_si256((const __m256i*)(lines + pair * 32 + lane * 2));
                float* out = wide + pair * 32 + lane;
                _mm256_store_si256((__m256i*)out, _mm256_slli_epi32(line, 16));
                _mm256_store_si256((__m256i*)(out + 16), _mm256_and_si256(line, high_half));
            }
    }
};

template <>
struct Avx2Widen<Dtype::fp16> {
    static void widen(const u16* lines, i64 count, float* wide) {
        // gathers the low halves of 4 dwords in the low 8 bytes, the high halves above them
        const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        for (i64 pair = 0; pair < count; pair++)
            for (i64 lane = 0; lane < STRIP_ROWS; lane += 8) {
                const __m128i* line = (const __m128i*)(lines + pair * 32 + lane * 2);
                __m128i a = _mm_shuffle_epi8(line[0], split), b = _mm_shuffle_epi8(line[1], split);
                float* out = wide + pair * 32 + lane;
                _mm256_store_ps(out, _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b)));
                _mm256_store_ps(out + 16, _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b)));
            }
    }
};

struct Avx2 {
    static constexpr i64 MAX_NB = 4;  // 4 columns x 2 registers of sums, of 16
    using BitmapStep = Avx2BitmapStep;
    using DenseStep = Avx2DenseStep;
    template <i64 NB, Dtype D>
    using Multiplier = Fp32Multiplier<NB, 4, D, Avx2Widen<D>>;
};

}  // namespace

void spmm_avx2(const Problem& p) { spmm_any_dtype<Avx2>(p); }
}  // namespace lscd
