// SparTA on the GPU: what the 2:4 part of a matrix (two_four.cuh) leaves over, which CSR holds.
#include "two_four.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 256, WARPS = THREADS / LANES;

// The weights of a group, without those that the 2:4 part keeps.
__device__ uint64_t left_over(const Chunk& chunk, int group) {
    Slots kept = chunk.slots(group);
    uint64_t places = uint64_t(0xffff) << 16 * kept.first | uint64_t(0xffff) << 16 * kept.second;
    return chunk.groups[group] & ~places;
}

__global__ void __launch_bounds__(THREADS) subtract(Source dense, int64_t chunks, Target rest) {
    int64_t i = thread_number();
    if (i >= chunks) return;
    Chunk chunk(dense, i);
    rest.store8(chunk.row, chunk.col, as_eight(left_over(chunk, 0), left_over(chunk, 1)));
}

// Whether an entry of the rest is right of both non-zeros of its 2:4 group.
__device__ bool belongs(const uint32_t* values, const uint8_t* indices, int64_t row, int64_t column,
                        int64_t K) {
    int64_t group = row * 2 * ceil_div(K, CHUNK) + column / 4;
    Slots slots(ld_global(indices + group / 2) >> 4 * (group % 2) & 15);
    return nonzero_mask(ld_global(values + group)) == 3 && column % 4 > slots.second;
}

// A warp checks one row.
__global__ void __launch_bounds__(THREADS)
    check(const uint32_t* values, const uint8_t* indices, const int* row_ptr, const int* col_idx,
          int64_t M, int64_t K, long long* found) {
    int64_t m = int64_t(blockIdx.x) * WARPS + warp_id();
    if (m >= M) return;
    bool wrong = false;
    int64_t end = ld_global(row_ptr + m + 1);
    for (int64_t at = ld_global(row_ptr + m) + lane_id(); at < end; at += LANES)
        wrong |= !belongs(values, indices, m, ld_global(col_idx + at), K);
    wrong = __any_sync(ALL_LANES, wrong);
    if (lane_id() == 0) report(found, m, wrong ? 1 : 0);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// rest [M, K]: `dense` without what lscd_two_four_pack keeps.
LSCD_EXPORT int lscd_sparta_rest(const uint16_t* dense, int64_t M, int64_t K, uint16_t* rest,
                                 cudaStream_t stream) {
    int64_t chunks = M * ceil_div(K, CHUNK);
    return launch(subtract, ceil_div(chunks, THREADS), THREADS, stream, Source(dense, M, K), chunks,
                  Target(rest, M, K));
}

// found: the first row of the rest with an entry that is not right of a full 2:4 group's second
// non-zero (problem 1).
LSCD_EXPORT int lscd_sparta_check(const uint32_t* values, const uint8_t* indices, const int* row_ptr,
                                  const int* col_idx, int64_t M, int64_t K, long long* found,
                                  cudaStream_t stream) {
    return launch(check, ceil_div(M, WARPS), THREADS, stream, values, indices, row_ptr, col_idx, M, K,
                  found);
}
