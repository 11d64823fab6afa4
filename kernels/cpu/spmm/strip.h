// The strip: 16 rows x 64 columns of A, decoded. It is to the CPU what the shared-memory tile is to
// the GPU: weights are loaded sparse, rebuilt dense here (2 KB, in the L1 cache), multiplied dense.
//
//                 16 rows, interleaved                       a pair: columns k, k+1 of one row,
//   pair 0    | i0 | i1 | i2 |  ...  | i15 |   64 bytes      adjacent, as dot-product instructions
//   pair 1    | i0 | i1 | i2 |  ...  | i15 |                 (vdpbf16ps, tdpbf16ps) want them
//     ...
//   pair 31   | i0 | i1 | i2 |  ...  | i15 |
//
// Read on in this order:
//   strip.h        what is in the middle, and what a launch is told (Problem)
//   decode*.h      from each format into strips; only the inner step depends on the instruction set
//   multiply.h     strips times activations, into fp32 sums
//   spmm.h         the loops around both, and the choice of decoder and multiplier
//   spmm_<isa>.cpp one instruction set each: which steps and which multiplier it brings
//
// One pair line is one AVX-512 register, and a line of an AMX tile. Lanes are rows of A, so any N is
// served without padding and without horizontal sums. Lane i holds row 4*(i%4) + i/4: that is how
// four expanded 8-column groups fall out of a 4x4 transpose, and it is undone when C is written.
#pragma once
#include "../common.h"

namespace lscd {

constexpr i64 STRIP_ROWS = 16, BLOCK_K = 64, PAIRS = BLOCK_K / 2;
constexpr i64 STRIP = STRIP_ROWS * BLOCK_K;  // elements
constexpr i64 MOST_ROWS = 128;               // that are decoded together

inline i64 row_of_lane(i64 lane) { return 4 * (lane % 4) + lane / 4; }  // its own inverse

// Where element (row, k) of a 16x64 strip lies.
inline i64 strip_index(i64 row, i64 k) { return k / 2 * 32 + row_of_lane(row) * 2 + k % 2; }

enum class Dtype : i32 { fp16, bf16 };
enum class Format : i32 {
    dense, csr, tiled_csl, tca_bme, two_four, sparta, zero_row_24, zero_row_24_strips, lane_24_strips,
    bitmap_strips, coded_strips
};

// One product C[M, N] = A[M, K] * B[K, N]. Strides are in elements; B and C are 16-bit floats.
struct Problem {
    Format format;
    Dtype dtype;
    i64 M, K, N;
    const void* A[5];  // the arrays of the encoding, in the order of its decoder
    i64 A_values;      // length of the values array, so that wide loads stay inside it
    const u16* B;
    i64 B_stride_k, B_stride_n;
    u16* C;
    i64 C_stride_m, C_stride_n;
    i32 threads;
};

}  // namespace lscd
