// Reading memory and nothing else: the byte limit that every kernel is held against.
#include "values.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 512, UNROLL = 4, BLOCKS_PER_SM = 4;

// Each step of the grid reads UNROLL * 16 bytes per thread, neighbours by neighbours. The xor of all
// words is written where it is a value that it practically never has, so that no load is dropped.
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    read_all(const uint4* words, int64_t count, uint32_t* sink) {
    uint32_t mixed = 0;
    int64_t step = int64_t(gridDim.x) * THREADS;
    for (int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x; i < count; i += UNROLL * step) {
        uint4 word[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            word[u] = i + u * step < count ? __ldcs(words + i + u * step) : uint4{0, 0, 0, 0};
#pragma unroll
        for (int u = 0; u < UNROLL; u++) mixed ^= word[u].x ^ word[u].y ^ word[u].z ^ word[u].w;
    }
    if (mixed == 0x5A17B0B5) *sink = mixed;
}

}  // namespace
}  // namespace lscd

// Reads `bytes` from `buffer`, both multiples of 16; `sink` is a word that may be written.
LSCD_EXPORT int lscd_read_all(const void* buffer, int64_t bytes, void* sink, int32_t multiprocessors,
                              cudaStream_t stream) {
    using namespace lscd;
    read_all<<<multiprocessors * BLOCKS_PER_SM, THREADS, 0, stream>>>(
        static_cast<const uint4*>(buffer), bytes / 16, static_cast<uint32_t*>(sink));
    return cudaGetLastError();
}
