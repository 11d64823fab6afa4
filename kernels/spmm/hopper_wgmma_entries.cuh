// Weights that found no slot, eight at a time, to fragments of mma.sync.
#pragma once
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// A [16 x 8] holds a weight in each column, and B the rows of B' that they meet.
template <class T, int BLOCK_N>
struct EntryStep {
    using Tile = DenseTile<BLOCK_N>;

    uint32_t a[2];
    Address row;  // of B', that the lane reads for ldmatrix

    // Where the lane's part of row k lies; `swizzle` is the row's.
    __device__ __forceinline__ void meet(Address tile, uint32_t lane, uint32_t k, uint32_t swizzle) {
        row = tile + ((lane / 8 ^ swizzle) << 4) + k * Tile::ROW_BYTES;
    }
    __device__ __forceinline__ void add_to(float (&sum)[BLOCK_N / 8][4]) const {
#pragma unroll
        for (int n = 0; n < BLOCK_N; n += 32) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, (row ^ n % Tile::PART * 2) + n / Tile::PART * Tile::PART_BYTES);
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (n + 8 * i < BLOCK_N) mma_m16n8k8<T>(sum[n / 8 + i], a[0], a[1], b[i]);
        }
    }
};

}  // namespace
}  // namespace lscd
