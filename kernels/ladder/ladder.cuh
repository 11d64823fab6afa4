// What all rungs of the ladder share. Each file here is one kernel, and one idea more than the kernel
// before it; read them in the order of their numbers. kernels/spmm has what the ideas add up to, with
// wider blocks and more tuning.
//
//   tiled_csl_1_dense            a tensor-core GEMM: every weight is loaded, zero or not
//   tiled_csl_2_sparse           only non-zeros are loaded, into shared memory, and extracted there
//   tiled_csl_3_registers        they wait in registers instead
//   tiled_csl_4_zeroing          the dense tile is cleared while they are on their way
//   tiled_csl_5_double_buffer    the next tile is on its way while this one is multiplied
//     (6: the same kernel, on words that were reordered ahead of time)
//   tiled_csl_7_shares           tiles are shared out equally, rows may be split
//
//   tca_bme_1_two_popcounts      bitmaps; each weight is found by counting all bits before it
//   tca_bme_2_running_count      no bit is counted twice
//   tca_bme_3_pipeline           the next tile is on its way while this one is multiplied
//
// Each block works on 16 columns of C, with 4 warps. Where nothing else is said, it has a row of A's
// tiles for itself: p.workers is the number of these rows.
#pragma once
#include "../common/config.cuh"
#include "../common/dense.cuh"
#include "../common/store.cuh"

namespace lscd {

constexpr int THREADS = 128, BLOCK_N = 16, N_FRAGS = BLOCK_N / 8, B_ELEMENTS = BLOCK_N * TILE_K;

__device__ inline int warp_of_block() { return threadIdx.x / 32; }
__device__ inline int lane_of_warp() { return threadIdx.x % 32; }

// What a warp has to show in the end: sums of M_FRAGS x N_FRAGS fragments of 16 x 8.
template <int M_FRAGS>
using Sums = float[M_FRAGS][N_FRAGS][4];

// The sums of this block's row of tiles, to C; the warp's start at row m0 of the block.
template <class T, int BLOCK_M, int M_FRAGS>
__device__ inline void store_row(const Problem& p, const Sums<M_FRAGS>& sum, int m0) {
    Shares shares(p);
    RowOfSums<BLOCK_M> row(p, Share(shares, blockIdx.x), blockIdx.x, shares.row_tiles);
    row.template store<T>(p, sum, m0, blockIdx.y * BLOCK_N);
}

// The configuration of each rung, in the order of lab_utils/ladder/rungs.py.
Config tiled_csl_1_dense_config(const Problem& p);
Config tiled_csl_2_sparse_config(const Problem& p);
Config tiled_csl_3_registers_config(const Problem& p);
Config tiled_csl_4_zeroing_config(const Problem& p);
Config tiled_csl_5_double_buffer_config(const Problem& p);
Config tiled_csl_7_shares_config(const Problem& p);
Config tca_bme_1_two_popcounts_config(const Problem& p);
Config tca_bme_2_running_count_config(const Problem& p);
Config tca_bme_3_pipeline_config(const Problem& p);

}  // namespace lscd
