// Rung 5 (and 6): two buffers, so that loading overlaps with multiplying.
//
//   tile t      |-- smem2tc --|
//   tile t+1    |== gmem2reg, ld_dense: on their way ==|
//               |-- rst_smem --|                       |-- extract --|
//
// Idea: while one tile is multiplied, the next is loaded, into a second buffer. Memory is idle only
// while words are extracted.
//
// Rung 6 is this very kernel. Its words were put into another order ahead of time (Flash-LLM,
// algorithm 3): 32 lanes that scatter at once meet as few equal banks as the tile allows. The encoder
// does it once; the kernel does not change by a letter.
#include "tiled_csl.cuh"

namespace lscd {
namespace {

// A: words, tile_offsets.
template <class T>
__global__ void __launch_bounds__(THREADS) tiled_csl_5_double_buffer(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> shared(memory);
    auto a = [&](int k) { return shared + k % 2 * A_ELEMENTS; };
    auto b = [&](int k) { return shared + (2 * A_ELEMENTS + k % 2 * B_ELEMENTS); };
    Sums<M_FRAGS> sum = {};
    uint4 held[VECTORS];
    int row_tiles = ceil_div(p.K, TILE_K), first = blockIdx.x * row_tiles;
    Words words(p, first);

    auto load = [&](int k) {
        ld_dense<BLOCK_N, THREADS>(p, k, blockIdx.y * BLOCK_N, b(k));
        cp_async_commit();
        words = Words(p, first + k);
        gmem2reg(held, words);
        rst_smem(a(k));
    };
    auto finish = [&](int k) {
        __syncthreads();  // tile k is clear
        extract(a(k), held, words);
        cp_async_wait<0>();
        __syncthreads();  // tile k is whole; all are done with the tile before it
    };

    load(0);
    finish(0);
    for (int k = 0; k + 1 < row_tiles; k++) {
        load(k + 1);
        smem2tc(sum, a(k), b(k));
        finish(k + 1);
    }
    smem2tc(sum, a(row_tiles - 1), b(row_tiles - 1));
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * WARP_M);
}

template <class T>
Config config() {
    return {(const void*)tiled_csl_5_double_buffer<T>, BLOCK_M, BLOCK_N, THREADS, 2 * TILE_BYTES};
}

}  // namespace

Config tiled_csl_5_double_buffer_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>() : config<__nv_bfloat16>();
}

}  // namespace lscd
