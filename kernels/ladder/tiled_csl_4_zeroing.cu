// Rung 4: clearing overlaps with loading.
//
//   words of tile t   |== gmem2reg: on their way ==|-- extract --|
//   dense tile        |-- rst_smem --|             |             |-- smem2tc --|
//
// Idea: nobody needs the words before the tile is clear, and nobody who clears it needs the words. So
// the loads are sent first, and the tile is cleared while they are on their way. The same work in
// another order: the emulator counts exactly what it counted for rung 3, and only a clock can tell.
#include "tiled_csl.cuh"

namespace lscd {
namespace {

// A: words, tile_offsets.
template <class T>
__global__ void __launch_bounds__(THREADS) tiled_csl_4_zeroing(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> a(memory), b = a + A_ELEMENTS;
    Sums<M_FRAGS> sum = {};
    uint4 held[VECTORS];
    int row_tiles = ceil_div(p.K, TILE_K);

    for (int k = 0; k < row_tiles; k++) {
        Words words(p, blockIdx.x * row_tiles + k);
        ld_dense<BLOCK_N, THREADS>(p, k, blockIdx.y * BLOCK_N, b);
        cp_async_commit();
        gmem2reg(held, words);
        rst_smem(a);      // while all of these are on their way
        __syncthreads();  // the tile is clear
        extract(a, held, words);
        cp_async_wait<0>();
        __syncthreads();  // the tile is whole, and so is that of B
        smem2tc(sum, a, b);
        __syncthreads();
    }
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * WARP_M);
}

template <class T>
Config config() {
    return {(const void*)tiled_csl_4_zeroing<T>, BLOCK_M, BLOCK_N, THREADS, TILE_BYTES};
}

}  // namespace

Config tiled_csl_4_zeroing_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>() : config<__nv_bfloat16>();
}

}  // namespace lscd
