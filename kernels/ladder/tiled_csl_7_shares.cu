// Rung 7: the tiles of A in equal shares, whatever the shape (split-K, and more).
//
//   rows of tiles    |-------- row 0 --------|-------- row 1 --------|-------- row 2 --------|
//   workers          |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 ---|--- 4 ---|--- 5 ---|--- 6 ---|.|
//
// Idea: with a row of tiles for each block, a matrix of few rows leaves multiprocessors idle, and one
// whose rows do not divide by their number leaves them idle at the end. So as many workers as the GPU
// runs at once get equal runs of tiles. A row that several of them share is summed up in fp32 by a
// second, small kernel. Splitting K in s parts is the case of s workers for each row.
#include "tiled_csl.cuh"

namespace lscd {
namespace {

// A: words, tile_offsets. 5 blocks must fit on a multiprocessor: registers for that, and none spilled.
template <class T>
__global__ void __launch_bounds__(THREADS, 5) tiled_csl_7_shares(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> shared(memory);
    auto a = [&](int t) { return shared + t % 2 * A_ELEMENTS; };
    auto b = [&](int t) { return shared + (2 * A_ELEMENTS + t % 2 * B_ELEMENTS); };
    Sums<M_FRAGS> sum = {};
    uint4 held[VECTORS];
    Shares shares(p);
    Share share(shares, blockIdx.x);
    Words words(p, share.first);
    int row_tiles = shares.row_tiles;

    auto load = [&](int t) {
        ld_dense<BLOCK_N, THREADS>(p, t % row_tiles, blockIdx.y * BLOCK_N, b(t));
        cp_async_commit();
        words = Words(p, t);
        gmem2reg(held, words);
        rst_smem(a(t));
    };
    auto finish = [&](int t) {
        __syncthreads();
        extract(a(t), held, words);
        cp_async_wait<0>();
        __syncthreads();
    };
    auto store = [&](int row) {  // to C, or as a partial sum of that row; new sums begin
        RowOfSums<BLOCK_M>(p, share, row, row_tiles)
            .template store<T>(p, sum, warp_of_block() * WARP_M, blockIdx.y * BLOCK_N);
        clear(sum);
    };

    load(share.first);
    finish(share.first);
    for (int t = share.first; t < share.last; t++) {
        bool more = t + 1 < share.last;
        if (more) load(t + 1);
        smem2tc(sum, a(t), b(t));
        if (more) finish(t + 1);
        if (!more || (t + 1) % row_tiles == 0) store(t / row_tiles);
    }
}

template <class T>
Config config() {
    return {(const void*)tiled_csl_7_shares<T>, BLOCK_M, BLOCK_N, THREADS, 2 * TILE_BYTES};
}

}  // namespace

Config tiled_csl_7_shares_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config<__half>() : config<__nv_bfloat16>();
}

}  // namespace lscd
