// Reading memory and nothing else: the byte limit that every kernel is held against.
#include "values.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 512, UNROLL = 4, WORDS = THREADS * UNROLL;

// A block reads WORDS neighbours, 16 bytes each. The xor of all of them is written where it is a value
// that it practically never has, so that no load is dropped.
__global__ void __launch_bounds__(THREADS) read_all(const uint4* words, int64_t count, uint32_t* sink) {
    int64_t first = blockIdx.x * int64_t(WORDS) + threadIdx.x;
    uint4 word[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        int64_t i = first + u * THREADS;
        word[u] = i < count ? __ldcs(words + i) : uint4{0, 0, 0, 0};
    }
    uint32_t mixed = 0;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) mixed ^= word[u].x ^ word[u].y ^ word[u].z ^ word[u].w;
    if (mixed == 0x5A17B0B5) *sink = mixed;
}

}  // namespace
}  // namespace lscd

// Reads `bytes` from `buffer`, both multiples of 16; `sink` is a word that may be written.
LSCD_EXPORT int lscd_read_all(const void* buffer, int64_t bytes, void* sink, cudaStream_t stream) {
    using namespace lscd;
    int64_t count = bytes / 16;
    read_all<<<unsigned((count + WORDS - 1) / WORDS), THREADS, 0, stream>>>(
        static_cast<const uint4*>(buffer), count, static_cast<uint32_t*>(sink));
    return cudaGetLastError();
}
