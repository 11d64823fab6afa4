// B as it lies, for products that meet its rows themselves and no others: the tensor copy engine reads columns of it,
// and no grid stands before the product.
#pragma once
#include "../common/tensor_map.cuh"
#include "hopper_wgmma_slots.cuh"

namespace lscd {
namespace {

// With B as the tensor copy engine reads it, where its launcher found it.
struct ColumnsProblem : WgmmaProblem {
    TensorMap columns = {};
};

// What a round meets, or a quarter of it where that would take most of shared memory: blocks of 64 rows of B, one
// behind the other, each [n][k].
template <int BLOCK_N>
struct ColumnsTile {
    static constexpr int OF_ROUND = BLOCK_N <= 128 ? 1 : 4, BLOCKS = DENSE_ROWS / TENSOR_COLS / OF_ROUND;
    // A wgmma has 256 columns at most: wider tiles are two, side by side. Their sums leave registers for half of what
    // a quarter multiplies, a step.
    static constexpr int SIDE_BY_SIDE = BLOCK_N <= 256 ? 1 : 2, WGMMA_COLS = BLOCK_N / SIDE_BY_SIDE;
    static constexpr int STEPS = SIDE_BY_SIDE;
    static constexpr int BLOCK_BYTES = BLOCK_N * TENSOR_COLS * 2, BYTES = BLOCKS * BLOCK_BYTES;

    // Of B with whole blocks of rows.
    static cudaError_t make_map(ColumnsProblem* p) {
        int blocks = ceil_div(p->K, TENSOR_COLS);
        if (p->ldb < blocks * TENSOR_COLS) return cudaErrorInvalidValue;
        return make_blocks_map(&p->columns, p->dtype, p->B, p->N, blocks, p->ldb, WGMMA_COLS, BLOCKS);
    }
    // The nth one of the columns of a pass.
    __device__ static void ld_dense(const ColumnsProblem& p, int pass, int nth, Address to, Address barrier) {
        static_assert(SIDE_BY_SIDE == 1 || BLOCKS == 1);
#pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++)
            tensor_copy_blocks(to + i * (BYTES / SIDE_BY_SIDE), &p.columns, pass * BLOCK_N + i * WGMMA_COLS,
                               nth * BLOCKS, barrier, evict_last());
    }
    __device__ static uint64_t descriptor(Address at) { return k_major(at); }
    // How many 16 bytes row k of a round is further on, a multiple of 16.
    __device__ static constexpr uint32_t further(int k) {
        return (k / TENSOR_COLS * BLOCK_BYTES + k % TENSOR_COLS * 2) / 16;
    }
};

}  // namespace
}  // namespace lscd
