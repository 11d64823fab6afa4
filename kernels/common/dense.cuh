// The dense operand B: from global memory to swizzled tiles in shared memory, and on to fragments.
#pragma once
#include "problem.cuh"
#include "ptx.cuh"

namespace lscd {

// Element (row, col) of a [rows][64] tile of 16-bit elements, in which 16-byte chunks are swizzled
// so that the eight rows that ldmatrix reads at once lie in different banks.
__device__ constexpr int swizzled(int row, int col) { return row * TILE_K + (col ^ 8 * (row % 8)); }

// ld_dense: 64 rows of B, BLOCK_N columns from n0, as [n][64 k] swizzled; zeros outside of B.
template <int BLOCK_N, int THREADS, class T>
__device__ inline void ld_dense(const Problem& p, int k_tile, int n0, Shared<T> tile) {
    constexpr int CHUNKS = BLOCK_N * TILE_K / 8;
    const T* B = static_cast<const T*>(p.B);
#pragma unroll
    for (int base = 0; base < CHUNKS; base += THREADS) {
        int chunk = base + threadIdx.x;
        if (CHUNKS % THREADS && chunk >= CHUNKS) break;
        int n = chunk / 8, col = chunk % 8 * 8, k = k_tile * TILE_K + col;
        bool inside = n0 + n < p.N && k < p.K;
        int valid = inside ? 2 * min(8, p.K - k) : 0;
        cp_async_16(tile, swizzled(n, col), inside ? B + (n0 + n) * p.ldb + k : B, valid);
    }
}

// B fragments for 16 rows of B (k16) and 8 columns each.
template <int N_FRAGS, class T>
__device__ inline void load_b(uint32_t (&b)[N_FRAGS][2], Shared<T> tile, int k16) {
    int lane = threadIdx.x % 32;
    if constexpr (N_FRAGS == 1) {
        ldmatrix_x2(b[0], tile, swizzled(lane % 8, k16 * 16 + lane / 8 % 2 * 8));
    } else {
#pragma unroll
        for (int pair = 0; pair < N_FRAGS; pair += 2) {
            uint32_t r[4];
            ldmatrix_x4(r, tile, swizzled(pair * 8 + lane / 16 * 8 + lane % 8,
                                          k16 * 16 + lane / 8 % 2 * 8));
            b[pair][0] = r[0], b[pair][1] = r[1], b[pair + 1][0] = r[2], b[pair + 1][1] = r[3];
        }
    }
}

}  // namespace lscd
