// The dense half: strips of A times packed activations, accumulated in fp32.
//
// A multiplier serves one thread and NB columns of B at a time. It offers
//   PACKED, pack(p, k0, n0, out)    64 rows of B, NB columns, in its own layout and element type
//   begin(acc), end(acc)            around the K loop of a row block: acc[n block][strip][NB][16]
//   prepare(strips)                 once for the strips of each k block
//   multiply(packed, acc)           acc[strip][NB][16 lanes] += strips * activations
// and, for bitmaps and a single block of columns, instead of the last two
//   multiply_decoded(decoder, packed, acc)    each step of 8 columns is multiplied as it is decoded
#pragma once
#include "floats.h"

namespace lscd {
namespace {

#if defined(__AVX512F__)
constexpr i64 VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr i64 VECTOR_BYTES = 32;
#else
constexpr i64 VECTOR_BYTES = 16;
#endif
typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));

// One fp32 for each row of a strip, in registers of the width at hand (a vector type wider than
// those would be kept in memory).
struct Lanes {
    static constexpr i64 PARTS = 64 / VECTOR_BYTES;
    Vector part[PARTS];

    void add(const Lanes& other) {
#pragma GCC unroll 4
        for (i64 i = 0; i < PARTS; i++) part[i] += other.part[i];
    }
    void add_product(const Lanes& a, float b) {
#pragma GCC unroll 4
        for (i64 i = 0; i < PARTS; i++) part[i] += a.part[i] * b;
    }
};

// B[k, n], zero outside of B.
inline u16 activation(const Problem& p, i64 k, i64 n) {
    return k < p.K && n < p.N ? p.B[k * p.B_stride_k + n * p.B_stride_n] : 0;
}

// What the multipliers share whose sums rest in memory between k blocks. Self offers
//   step(line, b, sum)    sum[CHAINS][NB] += 8 columns of A (4 pair lines, or what it made of them)
//                         times 8 rows of B, which are PACKED / 8 elements
// SUMS lanes of sums fit the registers: few columns are split over several, so that one addition
// need not wait for the one before.
template <class Self, i64 COLUMNS, i64 SUMS>
struct MemoryAccumulator {
    static constexpr i64 NB = COLUMNS, STEPS = BLOCK_K / 8, CHAINS = NB < SUMS ? SUMS / NB : 1;
    const i64 strip_count, n_blocks;

    MemoryAccumulator(i64 strip_count, i64 n_blocks) : strip_count(strip_count), n_blocks(n_blocks) {}
    void begin(float* acc) {
        memset(acc, 0, n_blocks * strip_count * NB * STRIP_ROWS * sizeof(float));
    }
    void end(float*) {}

    // next() is what step takes. Each block of 64 columns is summed on its own before it joins acc:
    // fewer roundings than one long chain.
    template <class Next, class Element>
    void accumulate(Next next, const Element* packed, float* acc) {
        for (i64 s = 0; s < strip_count; s++) {
            Lanes sum[CHAINS][NB] = {};
            for (i64 step = 0; step < STEPS; step++)
                Self::step(next(), packed + step * (Self::PACKED / STEPS), sum);
            Lanes* out = (Lanes*)acc + s * NB;
#pragma GCC unroll 16
            for (i64 n = 0; n < NB; n++) {
                for (i64 c = 1; c < CHAINS; c++) sum[0][n].add(sum[c][n]);
                out[n].add(sum[0][n]);
            }
        }
    }
};

// Widen: static void widen(const u16* lines, i64 count, float* wide): [count][16][2] halves ->
// [2 count][16] fp32. Serves every dtype and, through the compiler's vectors, every machine.
template <i64 COLUMNS, i64 SUMS, Dtype D, class Widen>
struct Fp32Multiplier : MemoryAccumulator<Fp32Multiplier<COLUMNS, SUMS, D, Widen>, COLUMNS, SUMS> {
    using Base = MemoryAccumulator<Fp32Multiplier, COLUMNS, SUMS>;
    using Base::Base, Base::CHAINS, Base::NB;
    using Element = float;
    static constexpr i64 PACKED = BLOCK_K * NB, MAX_STRIPS = 8;
    alignas(64) float wide[MAX_STRIPS * STRIP];

    static void pack(const Problem& p, i64 k0, i64 n0, float* out) {  // [k][NB]
        for (i64 k = k0; k < k0 + BLOCK_K; k++)
            for (i64 n = n0; n < n0 + NB; n++) *out++ = to_float<D>(activation(p, k, n));
    }

    void prepare(const u16* strips) { Widen::widen(strips, Base::strip_count * PAIRS, wide); }

    void multiply(const float* packed, float* acc) {
        const float* line = wide;
        Base::accumulate([&] { return (line += 8 * STRIP_ROWS) - 8 * STRIP_ROWS; }, packed, acc);
    }

    template <class BitmapDecoder>
    void multiply_decoded(BitmapDecoder& decoder, const float* packed, float* acc) {
        auto decode = [&] {
            alignas(64) u16 lines[4 * 32];
            decoder.step(lines);
            Widen::widen(lines, 4, wide);
            return wide;
        };
        Base::accumulate(decode, packed, acc);
    }

    static void step(const float* line, const float* b, Lanes sum[CHAINS][NB]) {
#pragma GCC unroll 8
        for (i64 k = 0; k < 8; k++) {
            const Lanes a = ((const Lanes*)line)[k];
#pragma GCC unroll 16
            for (i64 n = 0; n < NB; n++) sum[k % CHAINS][n].add_product(a, b[k * NB + n]);
        }
    }
};

template <Dtype D>
struct PortableWiden {
    static void widen(const u16* lines, i64 count, float* wide) {
        for (i64 pair = 0; pair < count; pair++)
            for (i64 lane = 0; lane < STRIP_ROWS; lane++)
                for (i64 h = 0; h < 2; h++)
                    wide[(2 * pair + h) * STRIP_ROWS + lane] =
                        to_float<D>(lines[pair * 32 + lane * 2 + h]);
    }
};

}  // namespace
}  // namespace lscd
