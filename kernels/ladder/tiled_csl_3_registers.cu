// Rung 3: registers as the intermediate buffer.
//
//   global  --loads-->  words in registers  --extract-->  dense tile in shared  -->  as before
//
// Idea: words only wait somewhere until they are extracted, each by the thread that loaded it. So they
// can wait in its registers, of which there are more than shared memory. That saves writing them to
// shared memory and reading them back, and the room: more blocks fit on a multiprocessor. The registers
// hold 4096 words; what a tile has beyond them goes from memory to its place directly.
#include "tiled_csl.cuh"

namespace lscd {
namespace {

// A: words, tile_offsets.
template <class T>
__global__ void __launch_bounds__(THREADS) tiled_csl_3_registers(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> a(memory), b = a + A_ELEMENTS;
    Sums<M_FRAGS> sum = {};
    uint4 held[VECTORS];
    int row_tiles = ceil_div(p.K, TILE_K);

    for (int k = 0; k < row_tiles; k++) {
        rst_smem(a);
        __syncthreads();  // the tile is clear
        Words words(p, blockIdx.x * row_tiles + k);
        ld_dense<BLOCK_N, THREADS>(p, k, blockIdx.y * BLOCK_N, b);
        cp_async_commit();
        gmem2reg(held, words);
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
    return {(const void*)tiled_csl_3_registers<T>, BLOCK_M, BLOCK_N, THREADS, TILE_BYTES};
}

}  // namespace

Config tiled_csl_3_registers_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>() : config<__nv_bfloat16>();
}

}  // namespace lscd
