// Rung 2 of TCA-BME: no bit is counted twice (SpInfer's masked popcount in two phases).
//
//   strip     [ bitmap 0 ][ bitmap 1 ][ bitmap 2 ] ...
//   count      0           +popc(0)    +popc(1)        goes along with the tiles
//   phase 1    count + popc(bitmap & bits below the lane's)       finds the first weight
//   phase 2    one further, if the first bit is set               finds the second
//
// Idea: what was counted for one tile is where the next one starts, and the second weight of a lane
// lies right behind its first. Of 17 popcounts for an average tile, two are left.
#include "tca_bme.cuh"

namespace lscd {
namespace {

// A: bitmap, values, gt_offset, strip_offset.
template <class T>
__global__ void __launch_bounds__(THREADS) tca_bme_2_running_count(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles<T> tiles(memory);
    Sums<1> sum = {};
    int bit = 2 * lane_of_warp();
    uint64_t below = (uint64_t(1) << bit) - 1;

    for (int k = 0; k < ceil_div(p.K, TILE_K); k++) {
        tiles.load(p, k);
        cp_async_wait<0>();
        __syncthreads();
        int count = tiles.first_of_warp();
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a[4];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                uint64_t bits = tiles.bitmaps_of_warp().load(k16 * 4 + q);
                int first = count + __popcll(bits & below);
                a[q] = tiles.pair(bits, first, first + int(bits >> bit & 1));
                count += __popcll(bits);
            }
            smem2tc(sum, a, tiles.b, k16);
        }
        __syncthreads();
    }
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * 16);
}

template <class T>
Config config(const Problem& p) {
    return {(const void*)tca_bme_2_running_count<T>, BLOCK_M, BLOCK_N, THREADS, Tiles<T>::bytes(p)};
}

}  // namespace

Config tca_bme_2_running_count_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>(p) : config<__nv_bfloat16>(p);
}

}  // namespace lscd
