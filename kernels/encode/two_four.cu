// 2:4 on the GPU: a thread per eight columns.
#include "two_four.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 256;

int64_t chunks_of(int64_t M, int64_t K) { return M * ceil_div(K, CHUNK); }

__global__ void __launch_bounds__(THREADS) overfull(Source dense, int64_t chunks, long long* found) {
    int64_t i = thread_number();
    if (i >= chunks) return;
    Chunk chunk(dense, i);
    int64_t group = chunk.row * ceil_div(dense.K, 4) + chunk.col / 4;
    if (__popc(chunk.mask >> 4) > 2) atomicMin(found, group + 1);
    if (__popc(chunk.mask & 15) > 2) atomicMin(found, group);
}

__global__ void __launch_bounds__(THREADS)
    pack(Source dense, int64_t chunks, uint64_t* values, uint8_t* indices) {
    int64_t i = thread_number();
    if (i >= chunks) return;
    Chunk chunk(dense, i);
    Slots low = chunk.slots(0), high = chunk.slots(1);
    uint64_t four = chunk.weight(0, low.first) | chunk.weight(0, low.second) << 16 |
                    chunk.weight(1, high.first) << 32 | chunk.weight(1, high.second) << 48;
    st_global(values + i, four);
    st_global(indices + i, uint8_t(low.code | high.code << 4));
}

// The four weights of a group, from the two that are stored.
__device__ uint64_t group_of(uint32_t pair, unsigned code) {
    Slots at(code);
    return uint64_t(half_of(pair, 0)) << 16 * at.first | uint64_t(half_of(pair, 1)) << 16 * at.second;
}

__global__ void __launch_bounds__(THREADS)
    unpack(const uint64_t* values, const uint8_t* indices, int64_t chunks, Target dense) {
    int64_t i = thread_number();
    if (i >= chunks) return;
    int64_t per_row = ceil_div(dense.K, CHUNK);
    uint64_t four = ld_global(values + i);
    unsigned codes = ld_global(indices + i);
    uint64_t low = group_of(uint32_t(four), codes & 15), high = group_of(uint32_t(four >> 32), codes >> 4);
    dense.store8(i / per_row, i % per_row * CHUNK, as_eight(low, high));
}

// Problem of a stored group with `left` columns, as in kernels/cpu/encode/two_four.cpp; 0 if none.
__device__ int problem_of(uint32_t pair, unsigned code, int64_t left) {
    Slots at(code);
    unsigned present = nonzero_mask(pair), mask = (present & 1) << at.first | present >> 1 << at.second;
    if (Slots::of_mask(mask).code != code) return 1;
    return left < 4 && mask >> max(left, int64_t(0)) ? 2 : 0;
}

__global__ void __launch_bounds__(THREADS)
    check(const uint32_t* values, const uint8_t* indices, int64_t M, int64_t K, long long* found) {
    int64_t group = thread_number(), per_row = 2 * ceil_div(K, CHUNK);
    if (group >= M * per_row) return;
    unsigned code = ld_global(indices + group / 2) >> 4 * (group % 2) & 15;
    report(found, group, problem_of(ld_global(values + group), code, K - group % per_row * 4));
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// found: the first group (row * ceil(K / 4) + group) with more than two non-zeros.
LSCD_EXPORT int lscd_two_four_overfull(const uint16_t* dense, int64_t M, int64_t K, long long* found,
                                       cudaStream_t stream) {
    int64_t chunks = chunks_of(M, K);
    return launch(overfull, ceil_div(chunks, THREADS), THREADS, stream, Source(dense, M, K), chunks,
                  found);
}

// values [M, 4 * chunks], indices [M, chunks]: the first two non-zeros of every group.
LSCD_EXPORT int lscd_two_four_pack(const uint16_t* dense, int64_t M, int64_t K, uint64_t* values,
                                   uint8_t* indices, cudaStream_t stream) {
    int64_t chunks = chunks_of(M, K);
    return launch(pack, ceil_div(chunks, THREADS), THREADS, stream, Source(dense, M, K), chunks,
                  values, indices);
}

// Writes the weights of dense [M, K].
LSCD_EXPORT int lscd_two_four_unpack(const uint64_t* values, const uint8_t* indices, int64_t M,
                                     int64_t K, uint16_t* dense, cudaStream_t stream) {
    int64_t chunks = chunks_of(M, K);
    return launch(unpack, ceil_div(chunks, THREADS), THREADS, stream, values, indices, chunks,
                  Target(dense, M, K));
}

// found: the first group (row * groups + group, groups = K / 4 rounded up to even) with a problem.
LSCD_EXPORT int lscd_two_four_check(const uint32_t* values, const uint8_t* indices, int64_t M,
                                    int64_t K, long long* found, cudaStream_t stream) {
    return launch(check, ceil_div(2 * chunks_of(M, K), THREADS), THREADS, stream, values, indices, M,
                  K, found);
}
