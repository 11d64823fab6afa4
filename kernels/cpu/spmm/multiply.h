// The dense half: strips of A times packed activations, accumulated in fp32.
//
// A multiplier serves one thread and NB columns of B at a time. It offers
//   PACKED, pack(p, k0, n0, out)    64 rows of B, NB columns, in its own layout and element type
//   begin(acc), end(acc)            around the K loop of a row block: acc[n block][strip][NB][16]
//   prepare(strips)                 once for the strips of each k block
//   multiply(packed, acc)           acc[strip][NB][16 lanes] += strips * activations
#pragma once
#include "floats.h"

namespace lscd {
namespace {

typedef float lanes __attribute__((vector_size(64)));  // one fp32 for each row of a strip

// B[k, n], zero outside of B.
inline u16 activation(const Problem& p, i64 k, i64 n) {
    return k < p.K && n < p.N ? p.B[k * p.B_stride_k + n * p.B_stride_n] : 0;
}

// What the multipliers share whose sums rest in memory between k blocks.
template <i64 COLUMNS>
struct MemoryAccumulator {
    static constexpr i64 NB = COLUMNS;
    // Sums of few columns are split over several registers, to hide the latency of the adds.
    static constexpr i64 CHAINS = NB >= 8 ? 1 : 8 / NB;
    const i64 strip_count, n_blocks;
    const u16* strips = nullptr;

    MemoryAccumulator(i64 strip_count, i64 n_blocks) : strip_count(strip_count), n_blocks(n_blocks) {}
    void begin(float* acc) {
        memset(acc, 0, n_blocks * strip_count * NB * STRIP_ROWS * sizeof(float));
    }
    void prepare(const u16* decoded) { strips = decoded; }
    void end(float*) {}

    // Each block of 64 columns is summed on its own first: fewer roundings than one long chain.
    static void add(float* acc, lanes sum[CHAINS][NB]) {
#pragma GCC unroll 16
        for (i64 n = 0; n < NB; n++) {
            for (i64 c = 1; c < CHAINS; c++) sum[0][n] += sum[c][n];
            ((lanes*)acc)[n] += sum[0][n];
        }
    }
};

// Widen: static void widen(const u16* strip, float* wide): [32][16][2] halves -> [64][16] fp32.
// Works for every dtype and, through the compiler's vectors, on every machine.
template <i64 COLUMNS, Dtype D, class Widen>
struct Fp32Multiplier : MemoryAccumulator<COLUMNS> {
    using Base = MemoryAccumulator<COLUMNS>;
    using Base::Base, Base::CHAINS, Base::NB;
    using Element = float;
    static constexpr i64 PACKED = BLOCK_K * NB, MAX_STRIPS = 8;
    alignas(64) float wide[MAX_STRIPS * STRIP];

    static void pack(const Problem& p, i64 k0, i64 n0, float* out) {  // [k][NB]
        for (i64 k = k0; k < k0 + BLOCK_K; k++)
            for (i64 n = n0; n < n0 + NB; n++) *out++ = to_float<D>(activation(p, k, n));
    }

    void prepare(const u16* strips) {
        for (i64 s = 0; s < Base::strip_count; s++) Widen::widen(strips + s * STRIP, wide + s * STRIP);
    }

    void multiply(const float* packed, float* acc) {
        for (i64 s = 0; s < Base::strip_count; s++) {
            lanes sum[CHAINS][NB] = {};
            const float* strip = wide + s * STRIP;
            for (i64 k = 0; k < BLOCK_K; k += CHAINS)
#pragma GCC unroll 8
                for (i64 c = 0; c < CHAINS; c++) {
                    lanes a = *(const lanes*)(strip + (k + c) * STRIP_ROWS);
#pragma GCC unroll 16
                    for (i64 n = 0; n < NB; n++) sum[c][n] += a * packed[(k + c) * NB + n];
                }
            Base::add(acc + s * NB * STRIP_ROWS, sum);
        }
    }
};

template <Dtype D>
struct PortableWiden {
    static void widen(const u16* strip, float* wide) {
        for (i64 pair = 0; pair < PAIRS; pair++)
            for (i64 lane = 0; lane < STRIP_ROWS; lane++)
                for (i64 h = 0; h < 2; h++)
                    wide[(2 * pair + h) * STRIP_ROWS + lane] =
                        to_float<D>(strip[pair * 32 + lane * 2 + h]);
    }
};

}  // namespace
}  // namespace lscd
