// AVX-512 with BF16 (Zen 4, Cooper Lake and later): two products of bf16 per lane and instruction.
// vdpbf16ps takes subnormal inputs as zero, which is far below what bf16 results can show.
#include "decode_avx512.h"
#include "spmm.h"

namespace lscd {
namespace {

template <i64 COLUMNS>
struct DotMultiplier : MemoryAccumulator<DotMultiplier<COLUMNS>, COLUMNS, 8> {
    using Base = MemoryAccumulator<DotMultiplier, COLUMNS, 8>;
    using Base::Base, Base::CHAINS, Base::NB;
    using Element = u32;  // a pair of activations, rows k and k+1 of B
    static constexpr i64 PACKED = PAIRS * NB;
    const u16* strips = nullptr;

    static void pack(const Problem& p, i64 k0, i64 n0, u32* out) {  // [pair][NB]
        for (i64 k = k0; k < k0 + BLOCK_K; k += 2)
            for (i64 n = n0; n < n0 + NB; n++)
                *out++ = activation(p, k, n) | u32(activation(p, k + 1, n)) << 16;
    }

    void prepare(const u16* decoded) { strips = decoded; }

    void multiply(const u32* packed, float* acc) {
        const u16* line = strips;
        Base::accumulate([&] { return (line += 4 * 32) - 4 * 32; }, packed, acc);
    }

    template <class BitmapDecoder>
    void multiply_decoded(BitmapDecoder& decoder, const u32* packed, float* acc) {
        alignas(64) u16 lines[4 * 32];
        auto decode = [&] {
            decoder.step(lines);
            return (const u16*)lines;
        };
        Base::accumulate(decode, packed, acc);
    }

    static void step(const u16* line, const u32* b, Lanes sum[CHAINS][NB]) {
#pragma GCC unroll 4
        for (i64 pair = 0; pair < 4; pair++) {
            __m512bh a = (__m512bh)_mm512_load_si512(line + pair * 32);
#pragma GCC unroll 16
            for (i64 n = 0; n < NB; n++) {
                __m512bh both = (__m512bh)_mm512_set1_epi32(i32(b[pair * NB + n]));
                Vector& to = sum[pair % CHAINS][n].part[0];
                to = _mm512_dpbf16_ps(to, a, both);
            }
        }
    }
};

struct Avx512Bf16 {
    static constexpr i64 MAX_NB = 16;  // registers of sums, of 32
    using BitmapStep = Avx512BitmapStep;
    using DenseStep = Avx512DenseStep;
    template <i64 NB, Dtype>
    using Multiplier = DotMultiplier<NB>;
};

}  // namespace

void spmm_avx512bf16(const Problem& p) { spmm_any_N<Avx512Bf16, Dtype::bf16>(p); }
}  // namespace lscd
