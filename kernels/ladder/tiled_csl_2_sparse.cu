// Rung 2: load as sparse, compute as dense.
//
//   global  --cp.async-->  words in shared  --extract-->  dense tile in shared  -->  as in rung 1
//
// Idea: of a pruned matrix only the non-zeros are loaded, each as a word of its value and its place.
// In shared memory they become a dense tile again, and the tensor core never knows. The bytes that
// memory must bring fall with the sparsity; in return, everything passes through shared memory twice
// more, and one step waits for the other: load, clear, extract, multiply.
#include "tiled_csl.cuh"

namespace lscd {
namespace {

// A: words, tile_offsets. p.tile_values: words of the largest tile.
template <class T>
__global__ void __launch_bounds__(THREADS) tiled_csl_2_sparse(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> a(memory), b = a + A_ELEMENTS;
    Shared<uint4> buffer(memory + TILE_BYTES);
    Sums<M_FRAGS> sum = {};
    int row_tiles = ceil_div(p.K, TILE_K);

    for (int k = 0; k < row_tiles; k++) {
        Words words(p, blockIdx.x * row_tiles + k);
#pragma unroll 2
        for (int i = threadIdx.x; i < words.count; i += THREADS)
            cp_async_16(buffer, i, words.first + i);
        ld_dense<BLOCK_N, THREADS>(p, k, blockIdx.y * BLOCK_N, b);
        cp_async_commit();
        cp_async_wait<0>();
        rst_smem(a);
        __syncthreads();  // the tile is clear
        // Each thread extracts the words that it copied itself: no barrier for them.
        for (int i = threadIdx.x; i < words.count; i += THREADS)
            scatter(a.template as<uint16_t>(), buffer.load(i));
        __syncthreads();  // the tile is whole
        smem2tc(sum, a, b);
        __syncthreads();
    }
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * WARP_M);
}

template <class T>
Config config(const Problem& p) {
    return {(const void*)tiled_csl_2_sparse<T>, BLOCK_M, BLOCK_N, THREADS,
            TILE_BYTES + ceil_div(p.tile_values, 4) * 16};
}

}  // namespace

Config tiled_csl_2_sparse_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>(p) : config<__nv_bfloat16>(p);
}

}  // namespace lscd
