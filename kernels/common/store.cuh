// Sums in mma fragments, to C or to the partial sums of a split K loop.
#pragma once
#include "problem.cuh"
#include "ptx.cuh"

namespace lscd {

__device__ inline void round_to(__half* to, float value) { st_global(to, __float2half_rn(value)); }
__device__ inline void round_to(__nv_bfloat16* to, float value) {
    st_global(to, __float2bfloat16_rn(value));
}

// Sums of a warp's fragments (row0 and n0 of the first, row_step between them) to C, or to this split's partial sums.
template <class T, int M_FRAGS, int N_FRAGS>
__device__ inline void store_c(const Problem& p, const float (&sum)[M_FRAGS][N_FRAGS][4], int row0,
                               int n0, int part, int row_step = 16) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < M_FRAGS; i++)
#pragma unroll
        for (int j = 0; j < N_FRAGS; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                int m = row0 + i * row_step + r / 2 * 8 + lane / 4, n = n0 + j * 8 + lane % 4 * 2 + r % 2;
                if (m >= p.M || n >= p.N) continue;
                if (p.split_k == 1)
                    round_to(static_cast<T*>(p.C) + n * p.ldc + m, sum[i][j][r]);
                else
                    st_global(p.partial + (int64_t(part) * p.N + n) * p.M + m, sum[i][j][r]);
            }
}

}  // namespace lscd
