// Sums in mma fragments, to C or to the partial sums of a row that several workers share.
#pragma once
#include "problem.cuh"
#include "ptx.cuh"

namespace lscd {

__device__ inline void round_to(__half* to, float value) { st_global(to, __float2half_rn(value)); }
__device__ inline void round_to(__nv_bfloat16* to, float value) {
    st_global(to, __float2bfloat16_rn(value));
}

template <class T>
__device__ uint32_t bits_of(float value) {
    if constexpr (std::is_same_v<T, __half>) return __half_as_ushort(__float2half_rn(value));
    else return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// Two elements side by side, as a word.
template <class T>
__device__ uint32_t bits_of(float first, float second) {
    return bits_of<T>(first) | bits_of<T>(second) << 16;
}

// Two rows of a column in each word: m and m + 1, m + 8 and m + 9, where m is the even one of two lanes' rows.
struct RowPairs {
    uint32_t upper, lower;
};
// From elements of rows m and m + 8, a word for each of two columns. Two lanes, `apart` from each other, have
// neighbouring rows; each takes a column, the second one if its m is `odd`.
__device__ inline RowPairs pair_rows(uint32_t even_column, uint32_t odd_column, bool odd, int apart) {
    uint32_t mine = odd ? odd_column : even_column;
    uint32_t other = __shfl_xor_sync(~0u, odd ? even_column : odd_column, apart);
    uint32_t first = odd ? other : mine, second = odd ? mine : other;
    return {prmt(first, second, 0x5410), prmt(first, second, 0x7632)};
}

// Four of a lane's sums. Those that a later grid or thread block adds to others are best stored with evict_last,
// or weights that stream through the L2 may send them to memory and back; it takes two registers.
__device__ inline float4 quad(const float (&sums)[4]) { return {sums[0], sums[1], sums[2], sums[3]}; }
__device__ inline void add_quad(float (&sums)[4], const float4& value) {
    sums[0] += value.x, sums[1] += value.y, sums[2] += value.z, sums[3] += value.w;
}
__device__ inline void add_quad(float4& sum, const float4& value) {
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
}

template <int M_FRAGS, int N_FRAGS>
__device__ inline void clear(float (&sum)[M_FRAGS][N_FRAGS][4]) {
#pragma unroll
    for (int i = 0; i < M_FRAGS; i++)
#pragma unroll
        for (int j = 0; j < N_FRAGS; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) sum[i][j][r] = 0;
}

// Where the sums of a row of tiles go: to C, or where a worker has a part of the row only, to its
// partial sums: [N][BLOCK_M], of the row that its share begins in, and of the one that it ends in.
template <int BLOCK_M>
struct RowOfSums {
    int row;
    float* partial;

    __device__ RowOfSums(const Problem& p, const Share& share, int row, int row_tiles) : row(row) {
        bool starts = share.first <= row * row_tiles, ends = share.last >= (row + 1) * row_tiles;
        int64_t slot = int64_t(blockIdx.x) * 2 + (row != share.first / row_tiles);
        partial = starts && ends ? nullptr : p.partial + slot * p.N * BLOCK_M;
    }

    // Sums of a warp's fragments: m0 and n0 of the first, from one to the next M_STEP rows.
    template <class T, int M_STEP = 16, int M_FRAGS, int N_FRAGS>
    __device__ void store(const Problem& p, const float (&sum)[M_FRAGS][N_FRAGS][4], int m0,
                          int n0) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < M_FRAGS; i++)
#pragma unroll
            for (int j = 0; j < N_FRAGS; j++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    int m = m0 + i * M_STEP + r / 2 * 8 + lane / 4;
                    int n = n0 + j * 8 + lane % 4 * 2 + r % 2;
                    if (row * BLOCK_M + m >= p.M || n >= p.N) continue;
                    if (partial)
                        st_global(partial + int64_t(n) * BLOCK_M + m, sum[i][j][r]);
                    else
                        round_to(static_cast<T*>(p.C) + n * p.ldc + row * BLOCK_M + m, sum[i][j][r]);
                }
    }
};

}  // namespace lscd
