// What the rungs on TCA-BME share: GroupTiles of 64 x 64 in shared memory as they lie in global memory,
// bitmaps and values. They never become dense there: a lane finds the weights of its fragments by
// counting bits. How it counts, and when tiles are loaded, is what the rungs differ in.
#pragma once
#include "ladder.cuh"

namespace lscd {

constexpr int BLOCK_M = 64, BITMAPS = 64, STRIPS = 4, STRIP_BITMAPS = BITMAPS / STRIPS;

// One GroupTile and 16 columns of B. A warp works on a strip of 16 rows: 16 bitmaps of 8 x 8, four for
// each 16 columns of A, as the registers of an mma fragment are ordered.
template <class T>
struct Tiles {
    Shared<uint64_t> bitmap;
    Shared<int> strip_offset;  // where the values of each strip start
    Shared<T> values, b;

    // p.tile_values: values of the largest GroupTile. 8 more, zeros, so that a lane whose weight is
    // zero may read where the next one would be.
    __host__ __device__ static int bytes(const Problem& p) {
        return ceil_div(BITMAPS * 8 + STRIPS * 4 + (p.tile_values + 8) * 2, 128) * 128 + B_ELEMENTS * 2;
    }
    __device__ explicit Tiles(unsigned char* memory)
        : bitmap(memory + B_ELEMENTS * 2), strip_offset(memory + B_ELEMENTS * 2 + BITMAPS * 8),
          values(memory + B_ELEMENTS * 2 + BITMAPS * 8 + STRIPS * 4), b(memory) {}

    __device__ Shared<uint64_t> bitmaps_of_warp() const {
        return bitmap + warp_of_block() * STRIP_BITMAPS;
    }
    __device__ int first_of_warp() const { return strip_offset.load(warp_of_block()); }

    // Sends for tile k of this block's row. A: bitmap, values, gt_offset, strip_offset.
    __device__ void load(const Problem& p, int k) const {
        int tile = blockIdx.x * ceil_div(p.K, TILE_K) + k, i = threadIdx.x;
        const int* offsets = static_cast<const int*>(p.A[2]) + tile;
        const T* from = static_cast<const T*>(p.A[1]) + __ldg(offsets);
        int count = __ldg(offsets + 1) - __ldg(offsets);
        if (i < BITMAPS / 2)
            cp_async_16(bitmap, 2 * i, static_cast<const uint64_t*>(p.A[0]) + int64_t(tile) * BITMAPS + 2 * i);
        else if (i == BITMAPS / 2)
            cp_async_16(strip_offset, 0, static_cast<const int*>(p.A[3]) + int64_t(tile) * STRIPS);
        for (int v = 8 * i; v < count + 8; v += 8 * THREADS)
            cp_async_16(values, v, v < count ? from + v : from, v < count ? 16 : 0);
        ld_dense<BLOCK_N, THREADS>(p, k, blockIdx.y * BLOCK_N, b);
        cp_async_commit();
    }

    // Two neighbours of an 8 x 8 tile, bits 2 lane and 2 lane + 1, as one register of a fragment.
    __device__ uint32_t pair(uint64_t bits, int first, int second) const {
        Shared<uint16_t> halves = values.template as<uint16_t>();
        uint32_t low = halves.load(first), high = halves.load(second);
        uint32_t set = uint32_t(bits >> 2 * lane_of_warp());
        return (set & 1 ? low : 0) | (set & 2 ? high << 16 : 0);
    }
};

// To the tensor core: a fragment of A, and those of B for the same 16 columns of A.
template <class T>
__device__ inline void smem2tc(Sums<1>& sum, const uint32_t (&a)[4], Shared<T> b, int k16) {
    uint32_t b_frag[N_FRAGS][2];
    load_b(b_frag, b, k16);
#pragma unroll
    for (int j = 0; j < N_FRAGS; j++) mma_m16n8k16<T>(sum[0][j], a, b_frag[j]);
}

}  // namespace lscd
