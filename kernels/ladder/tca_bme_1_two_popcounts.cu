// Rung 1 of TCA-BME: weights found by counting bits.
//
//   bitmap of an 8 x 8 tile    0 1 1 0 0 1 0 1 ...      lane 2 owns bits 4 and 5
//   values of its strip        ... v0 v1 v2 v3 ...      bits before bit 5: 2, so it takes v2
//
// Idea: a bit per weight says whether it is zero; all others lie packed, in order. The place of a value
// is the number of bits set before its own. Each lane counts for both weights of its register, from the
// start of the strip. The weights go straight into fragments: no dense tile, no scatter, no conflicts.
#include "tca_bme.cuh"

namespace lscd {
namespace {

// Bits set in the strip before `bit` of its bitmap i.
__device__ inline int bits_before(Shared<uint64_t> bitmaps, int i, int bit) {
    int count = 0;
#pragma unroll 1
    for (int j = 0; j < i; j++) count += __popcll(bitmaps.load(j));
    return count + __popcll(bitmaps.load(i) & ((uint64_t(1) << bit) - 1));
}

// A: bitmap, values, gt_offset, strip_offset.
template <class T>
__global__ void __launch_bounds__(THREADS) tca_bme_1_two_popcounts(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles<T> tiles(memory);
    Sums<1> sum = {};
    int bit = 2 * lane_of_warp();

    for (int k = 0; k < ceil_div(p.K, TILE_K); k++) {
        tiles.load(p, k);
        cp_async_wait<0>();
        __syncthreads();
        Shared<uint64_t> bitmaps = tiles.bitmaps_of_warp();
        int start = tiles.first_of_warp();
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a[4];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int i = k16 * 4 + q;
                int first = bits_before(bitmaps, i, bit), second = bits_before(bitmaps, i, bit + 1);
                a[q] = tiles.pair(bitmaps.load(i), start + first, start + second);
            }
            smem2tc(sum, a, tiles.b, k16);
        }
        __syncthreads();
    }
    store_row<T, BLOCK_M>(p, sum, warp_of_block() * 16);
}

template <class T>
Config config(const Problem& p) {
    return {(const void*)tca_bme_1_two_popcounts<T>, BLOCK_M, BLOCK_N, THREADS, Tiles<T>::bytes(p)};
}

}  // namespace

Config tca_bme_1_two_popcounts_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>(p) : config<__nv_bfloat16>(p);
}

}  // namespace lscd
