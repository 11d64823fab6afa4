// Rung 1: a plain GEMM on tensor cores.
//
//   global  --cp.async-->  shared, swizzled  --ldmatrix-->  fragments  --mma-->  sums
//
// Idea: tiles of both operands go through shared memory, from which every fragment is read without a
// bank conflict. Nothing overlaps: a block loads a tile, waits, multiplies. All weights are loaded, so
// that at small N no dense kernel can be faster than its bytes: that is what the next rungs attack.
#include "tiled_csl.cuh"

namespace lscd {
namespace {

// A: weights, [M][K rounded up to 8].
template <class T>
__global__ void __launch_bounds__(THREADS) tiled_csl_1_dense(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> a(memory), b = a + A_ELEMENTS;
    Sums<M_FRAGS> sum = {};

    Problem weights = p;  // rows of A lie in memory as columns of B do: the same loads serve both
    weights.B = p.A[0], weights.ldb = ceil_div(p.K, 8) * 8, weights.N = p.M;

    for (int k = 0; k < ceil_div(p.K, TILE_K); k++) {
        ld_dense<BLOCK_M, THREADS>(weights, k, blockIdx.x * BLOCK_M, a);
        ld_dense<BLOCK_N, THREADS>(p, k, blockIdx.y * BLOCK_N, b);
        cp_async_commit();
        cp_async_wait<0>();  // this thread's copies are there ...
        __syncthreads();     // ... and everyone else's
        smem2tc(sum, a, b);
        __syncthreads();  // all have read: the next tile may overwrite this one
    }
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * WARP_M);
}

template <class T>
Config config() {
    return {(const void*)tiled_csl_1_dense<T>, BLOCK_M, BLOCK_N, THREADS, TILE_BYTES};
}

}  // namespace

Config tiled_csl_1_dense_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>() : config<__nv_bfloat16>();
}

}  // namespace lscd
