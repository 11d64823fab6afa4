// Rung 3 of TCA-BME: an asynchronous pipeline.
//
//   buffer 0   |== tile 0 ==|-- decode, multiply --|== tile 2 ==...
//   buffer 1   |== tile 1 on its way =============|-- decode, multiply --|
//                           ^ wait<1>: all but the latest group have come
//
// Idea: cp.async only sends. With two buffers, the next tile is sent before this one is waited for, and
// its bytes come while bits are counted. The wait lets one group, the latest, be still under way.
// kernels/spmm/tca_bme.cu goes on from here: three buffers, which save a barrier; one lane per bitmap
// that counts for all others; equal shares of tiles.
#include "tca_bme.cuh"

namespace lscd {
namespace {

// A: bitmap, values, gt_offset, strip_offset.
template <class T>
__global__ void __launch_bounds__(THREADS) tca_bme_3_pipeline(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto buffer = [&](int k) { return Tiles<T>(memory + k % 2 * Tiles<T>::bytes(p)); };
    Sums<1> sum = {};
    int bit = 2 * lane_of_warp(), row_tiles = ceil_div(p.K, TILE_K);
    uint64_t below = (uint64_t(1) << bit) - 1;

    buffer(0).load(p, 0);
    for (int k = 0; k < row_tiles; k++) {
        if (k + 1 < row_tiles) buffer(k + 1).load(p, k + 1);
        else cp_async_commit();  // an empty group, so that every turn waits for the same number
        cp_async_wait<1>();
        __syncthreads();
        Tiles<T> tiles = buffer(k);
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
        __syncthreads();  // all are done with this buffer: the tile after the next may come
    }
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * 16);
}

template <class T>
Config config(const Problem& p) {
    return {(const void*)tca_bme_3_pipeline<T>, BLOCK_M, BLOCK_N, THREADS, 2 * Tiles<T>::bytes(p)};
}

}  // namespace

Config tca_bme_3_pipeline_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>(p) : config<__nv_bfloat16>(p);
}

}  // namespace lscd
