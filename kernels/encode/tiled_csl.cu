// Tiled-CSL on the GPU, with and without reordering (Flash-LLM, sections 4.3 and 4.4; what the words
// are, and where they stand, is drawn in kernels/cpu/encode/tiled_csl.cpp).
#include "tiled_csl_pack.cuh"

namespace lscd {
namespace {

__global__ void __launch_bounds__(THREADS) count(Source dense, int* vectors) {
    extern __shared__ __align__(128) unsigned char memory[];
    Frame at(dense.K);
    int words = 0;
#pragma unroll
    for (int i = 0; i < PLACES / 8; i += THREADS) {
        int row = (i + threadIdx.x) / 8, eight = threadIdx.x % 8;
        words += __popc(nonzero_mask(dense.load8(at.row + row, at.col + 8 * eight)));
    }
    words = block_sum(words, Shared<int>(memory));
    if (threadIdx.x == 0) st_global(vectors + blockIdx.x, ceil_div(words, VECTOR));
}

// Five blocks fit an SM's shared memory on sm_90.
template <bool reorder>
__global__ void __launch_bounds__(THREADS, 5)
    pack(Source dense, const int* tile_offsets, uint4* vectors) {
    extern __shared__ __align__(128) unsigned char memory[];
    Packer tile(dense, *reinterpret_cast<Memory*>(memory));
    tile.pad();
    if constexpr (reorder) {
        tile.count_levels();
        tile.take_by_turns();
    } else {
        tile.take_in_order();
    }
    __syncthreads();
    uint4* out = vectors + ld_global(tile_offsets + blockIdx.x);
    for (int v = threadIdx.x; v < (tile.words + tile.pads) / VECTOR; v += THREADS)
        st_global(out + v, reorder ? tile.reordered(v) : Shared<uint4>(tile.memory.taken).load(v));
}

__device__ void scatter(Shared<uint16_t> tile, uint32_t word) {
    if (uint16_t value = uint16_t(word)) tile.store(word >> 16, value);
}

__global__ void __launch_bounds__(THREADS)
    unpack(const int* tile_offsets, const uint4* vectors, Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint4> eights(memory);
    for (int i = threadIdx.x; i < PLACES / 8; i += THREADS) eights.store(i, uint4{0, 0, 0, 0});
    __syncthreads();
    Shared<uint16_t> tile(memory);
    int end = ld_global(tile_offsets + blockIdx.x + 1);
    for (int v = ld_global(tile_offsets + blockIdx.x) + threadIdx.x; v < end; v += THREADS) {
        uint4 four = ld_global(vectors + v);
        scatter(tile, four.x), scatter(tile, four.y), scatter(tile, four.z), scatter(tile, four.w);
    }
    __syncthreads();
    Frame at(dense.K);
    for (int i = threadIdx.x; i < PLACES / 8; i += THREADS) {
        int row = i / 8, eight = i % 8;  // swizzled: see location
        dense.store8(at.row + row, at.col + 8 * eight, eights.load(row * 8 + (eight ^ row % 8)));
    }
}

// Problem of word i of a tile, as in kernels/cpu/encode/tiled_csl.cpp; 0 if it has none. `first` is by
// location the first word that has it.
__device__ int problem_of(uint32_t word, int i, Shared<int> first, int64_t rows, int64_t cols) {
    int location = word >> 16, row = location / COLS, col = (location % COLS) ^ 8 * (row % 8);
    if (location >= PLACES) return 2;
    if (first.load(location) < i) return 3;
    return (word & 0xffff) && (row >= rows || col >= cols) ? 4 : 0;
}

__global__ void __launch_bounds__(THREADS)
    check(const int* tile_offsets, const uint32_t* words, int64_t M, int64_t K, int64_t vectors,
          long long* found) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<int> first(memory), sums = first + PLACES, worst = sums + WARPS;  // worst: 16 * word + problem
    int64_t start = ld_global(tile_offsets + blockIdx.x), end = ld_global(tile_offsets + blockIdx.x + 1);
    if (start < 0 || end < start || end > vectors) {
        if (threadIdx.x == 0) report(found, blockIdx.x, 1);
        return;
    }
    const uint32_t* tile = words + VECTOR * start;
    // Of more words than places, one of the first PLACES + 1 has a problem.
    int count = int(min(VECTOR * (end - start), int64_t(PLACES + 1))), zeros = 0;
    for (int i = threadIdx.x; i < PLACES; i += THREADS) first.store(i, count);
    if (threadIdx.x == 0) worst.store(0, 16 * count);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += THREADS)
        if (uint32_t location = ld_global(tile + i) >> 16; location < PLACES)
            first.store_min(location, i);
    __syncthreads();
    Frame at(K);
    for (int i = threadIdx.x; i < count; i += THREADS) {
        uint32_t word = ld_global(tile + i);
        if (int problem = problem_of(word, i, first, M - at.row, K - at.col))
            worst.store_min(0, 16 * i + problem);
        zeros += (word & 0xffff) == 0;
    }
    zeros = block_sum(zeros, sums);  // and a barrier: all problems are in `worst`
    if (threadIdx.x) return;
    bool sound = worst.load(0) == 16 * count;
    report(found, blockIdx.x, !sound ? worst.load(0) % 16 : zeros < VECTOR ? 0 : 5);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// vectors [tiles]: words of each tile, padded, in vectors; pass one.
LSCD_EXPORT int lscd_tiled_csl_count(const uint16_t* dense, int64_t M, int64_t K, int* vectors,
                                     cudaStream_t stream) {
    return launch_with(WARPS * sizeof(int), count, tiles_of(M, K), THREADS, stream, Source(dense, M, K),
                       vectors);
}

// words [4 * tile_offsets[tiles]]: pass two.
LSCD_EXPORT int lscd_tiled_csl_pack(const uint16_t* dense, int64_t M, int64_t K,
                                    const int* tile_offsets, int64_t reorder, uint4* words,
                                    cudaStream_t stream) {
    return launch_with(sizeof(Memory), reorder ? pack<true> : pack<false>, tiles_of(M, K), THREADS,
                       stream, Source(dense, M, K), tile_offsets, words);
}

// Writes the weights of dense [M, K].
LSCD_EXPORT int lscd_tiled_csl_unpack(const int* tile_offsets, const uint4* words, int64_t M, int64_t K,
                                      uint16_t* dense, cudaStream_t stream) {
    return launch_with(PLACES * sizeof(uint16_t), unpack, tiles_of(M, K), THREADS, stream, tile_offsets,
                       words, Target(dense, M, K));
}

// found: the first tile that has a problem.
LSCD_EXPORT int lscd_tiled_csl_check(const int* tile_offsets, const uint32_t* words, int64_t M,
                                     int64_t K, int64_t vectors, long long* found,
                                     cudaStream_t stream) {
    return launch_with((PLACES + WARPS + 1) * sizeof(int), check, tiles_of(M, K), THREADS, stream,
                       tile_offsets, words, M, K, vectors, found);
}
