// What the rungs on Tiled-CSL share: a dense tile of A in shared memory, which words are scattered to
// and fragments are read from. Which of these steps comes when is what the rungs differ in.
#pragma once
#include "ladder.cuh"

namespace lscd {

constexpr int BLOCK_M = 128, WARP_M = 32, M_FRAGS = WARP_M / 16;  // 4 warps, one below the other
constexpr int A_ELEMENTS = BLOCK_M * TILE_K, TILE_BYTES = 2 * (A_ELEMENTS + B_ELEMENTS);

// The words of one tile: `count` vectors of four. A: words, tile_offsets.
struct Words {
    const uint4* first;
    int count;

    __device__ Words(const Problem& p, int tile) {
        const int* offsets = static_cast<const int*>(p.A[1]) + tile;
        int start = __ldg(offsets);
        first = static_cast<const uint4*>(p.A[0]) + start;
        count = __ldg(offsets + 1) - start;
    }
};

// rst_smem: zeros where the dense tile will be, 16 bytes a thread.
template <class T>
__device__ inline void rst_smem(Shared<T> a) {
    Shared<uint4> chunks = a.template as<uint4>();
#pragma unroll
    for (int i = 0; i < A_ELEMENTS / 8; i += THREADS) chunks.store(i + threadIdx.x, uint4{0, 0, 0, 0});
}

// A word says where in the tile it belongs (high half), and what is stored there (low half). Lanes
// whose places lie in different words of one bank must take turns.
__device__ inline void scatter(Shared<uint16_t> a, uint32_t word) {
    a.store(word >> 16, uint16_t(word));
}
__device__ inline void scatter(Shared<uint16_t> a, uint4 four) {
    scatter(a, four.x);
    scatter(a, four.y);
    scatter(a, four.z);
    scatter(a, four.w);
}

// Registers that hold words of a tile: 4096 words of a block, half of a dense tile.
constexpr int VECTORS = 8;

// gmem2reg: all loads of a thread are under way before it needs the first.
__device__ inline void gmem2reg(uint4 (&held)[VECTORS], const Words& words) {
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int i = v * THREADS + threadIdx.x;
        if (i < words.count) held[v] = __ldg(words.first + i);
    }
}

// extract: the words that are held, then what the registers had no room for, straight from memory.
template <class T>
__device__ inline void extract(Shared<T> to, const uint4 (&held)[VECTORS], const Words& words) {
    Shared<uint16_t> a = to.template as<uint16_t>();
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        if (v * THREADS + threadIdx.x < words.count) scatter(a, held[v]);
    for (int i = VECTORS * THREADS + threadIdx.x; i < words.count; i += THREADS)
        scatter(a, __ldg(words.first + i));
}

// smem2tc: fragments of both tiles to the tensor core.
template <class T>
__device__ inline void smem2tc(Sums<M_FRAGS>& sum, Shared<T> a, Shared<T> b) {
    int lane = lane_of_warp(), row = warp_of_block() * WARP_M + lane % 16;
#pragma unroll
    for (int k16 = 0; k16 < TILE_K / 16; k16++) {
        uint32_t b_frag[N_FRAGS][2];
        load_b(b_frag, b, k16);
#pragma unroll
        for (int i = 0; i < M_FRAGS; i++) {
            uint32_t a_frag[4];
            ldmatrix_x4(a_frag, a, swizzled(row + i * 16, k16 * 16 + lane / 16 * 8));
#pragma unroll
            for (int j = 0; j < N_FRAGS; j++) mma_m16n8k16<T>(sum[i][j], a_frag, b_frag[j]);
        }
    }
}

}  // namespace lscd
