// AVX-512 with BF16 (Zen 4, Cooper Lake and later): two products of bf16 per lane and instruction.
// vdpbf16ps takes subnormal inputs as zero, which is far below what bf16 results can show.
#include "decode_avx512.h"
#include "spmm.h"

namespace lscd {
namespace {

template <i64 COLUMNS>
struct DotMultiplier : MemoryAccumulator<COLUMNS> {
    using Base = MemoryAccumulator<COLUMNS>;
    using Base::Base, Base::CHAINS, Base::NB;
    using Element = u32;  // a pair of activations, rows k and k+1 of B
    static constexpr i64 PACKED = PAIRS * NB;

    static void pack(const Problem& p, i64 k0, i64 n0, u32* out) {  // [pair][NB]
        for (i64 k = k0; k < k0 + BLOCK_K; k += 2)
            for (i64 n = n0; n < n0 + NB; n++)
                *out++ = activation(p, k, n) | u32(activation(p, k + 1, n)) << 16;
    }

    void multiply(const u32* packed, float* acc) {
        for (i64 s = 0; s < Base::strip_count; s++) {
            __m512 sum[CHAINS][NB] = {};
            const u16* strip = Base::strips + s * STRIP;
            for (i64 pair = 0; pair < PAIRS; pair += CHAINS)
#pragma GCC unroll 8
                for (i64 c = 0; c < CHAINS; c++) {
                    __m512bh a = (__m512bh)_mm512_load_si512(strip + (pair + c) * 32);
#pragma GCC unroll 16
                    for (i64 n = 0; n < NB; n++) {
                        __m512i b = _mm512_set1_epi32(i32(packed[(pair + c) * NB + n]));
                        sum[c][n] = _mm512_dpbf16_ps(sum[c][n], a, (__m512bh)b);
                    }
                }
            Base::add(acc + s * NB * STRIP_ROWS, (lanes(*)[NB])sum);
        }
    }
};

struct Avx512Bf16 {
    static constexpr i64 MAX_NB = 16;
    using BitmapStep = Avx512BitmapStep;
    using DenseStep = Avx512DenseStep;
    template <i64 NB, Dtype>
    using Multiplier = DotMultiplier<NB>;
};

}  // namespace

void spmm_avx512bf16(const Problem& p) { spmm_any_N<Avx512Bf16, Dtype::bf16>(p); }
}  // namespace lscd
