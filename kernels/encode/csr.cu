// CSR on the GPU: a warp per row, 32 columns at a time, one per lane; ballots say how many non-zeros
// stand left of each.
#include "weights.cuh"

namespace lscd {
namespace {

constexpr int WARPS = 8, THREADS = WARPS * LANES, UNROLLED = 8;

__device__ int64_t row_of_warp() { return int64_t(blockIdx.x) * WARPS + warp_id(); }

// Calls visit(column, weight, mask of the lanes that have a non-zero) along row m, for all lanes of
// the warp alike; eight loads of each are on their way at once.
template <class Visit>
__device__ void scan_row(const Source& dense, int64_t m, Visit visit) {
    for (int64_t k0 = lane_id(); k0 - lane_id() < dense.K; k0 += UNROLLED * LANES) {
        uint32_t weights[UNROLLED];
#pragma unroll
        for (int i = 0; i < UNROLLED; i++) weights[i] = dense.load(m, k0 + i * LANES);
#pragma unroll
        for (int i = 0; i < UNROLLED; i++)
            visit(k0 + i * LANES, weights[i], __ballot_sync(ALL_LANES, weights[i] != 0));
    }
}

__global__ void __launch_bounds__(THREADS) count(Source dense, int* counts) {
    int64_t m = row_of_warp();
    if (m >= dense.M) return;
    int sum = 0;
    scan_row(dense, m, [&](int64_t, uint32_t, unsigned mask) { sum += __popc(mask); });
    if (lane_id() == 0) st_global(counts + m, sum);
}

__global__ void __launch_bounds__(THREADS)
    pack(Source dense, const int* row_ptr, int* col_idx, uint16_t* values) {
    int64_t m = row_of_warp();
    if (m >= dense.M) return;
    int64_t first = ld_global(row_ptr + m);
    scan_row(dense, m, [&](int64_t k, uint32_t weight, unsigned mask) {
        int64_t at = first + __popc(mask & lanes_below());
        if (weight) st_global(col_idx + at, int(k)), st_global(values + at, uint16_t(weight));
        first += __popc(mask);
    });
}

__global__ void __launch_bounds__(THREADS)
    unpack(const int* row_ptr, const int* col_idx, const uint16_t* values, Target dense) {
    int64_t m = row_of_warp();
    if (m >= dense.M) return;
    int64_t end = ld_global(row_ptr + m + 1);
    for (int64_t at = ld_global(row_ptr + m) + lane_id(); at < end; at += LANES)
        st_global(dense.at(m, ld_global(col_idx + at)), ld_global(values + at));
}

// Problem of row m, as in kernels/cpu/encode/csr.cpp; 0 if it has none. Called by a whole warp.
__device__ int problem_of(const int* row_ptr, const int* col_idx, const uint16_t* values, int64_t m,
                          int64_t K, int64_t nnz) {
    int64_t start = ld_global(row_ptr + m), end = ld_global(row_ptr + m + 1);
    if (start < 0 || end < start || end > nnz) return 1;
    if (start == end) return 0;
    if (ld_global(col_idx + start) < 0 || ld_global(col_idx + end - 1) >= K) return 2;
    bool falls = false, zero = false;
    for (int64_t at = start + lane_id(); at < end; at += LANES) {
        falls |= at > start && ld_global(col_idx + at) <= ld_global(col_idx + at - 1);
        zero |= ld_global(values + at) == 0;
    }
    if (__any_sync(ALL_LANES, falls)) return 3;
    return __any_sync(ALL_LANES, zero) ? 4 : 0;
}

__global__ void __launch_bounds__(THREADS)
    check(const int* row_ptr, const int* col_idx, const uint16_t* values, int64_t M, int64_t K,
          int64_t nnz, long long* found) {
    int64_t m = row_of_warp();
    if (m >= M) return;
    int problem = problem_of(row_ptr, col_idx, values, m, K, nnz);
    if (lane_id() == 0) report(found, m, problem);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// counts [M]: pass one.
LSCD_EXPORT int lscd_csr_count(const uint16_t* dense, int64_t M, int64_t K, int* counts,
                               cudaStream_t stream) {
    return launch(count, ceil_div(M, WARPS), THREADS, stream, Source(dense, M, K), counts);
}

// col_idx and values [row_ptr[M]]: pass two.
LSCD_EXPORT int lscd_csr_pack(const uint16_t* dense, int64_t M, int64_t K, const int* row_ptr,
                              int* col_idx, uint16_t* values, cudaStream_t stream) {
    return launch(pack, ceil_div(M, WARPS), THREADS, stream, Source(dense, M, K), row_ptr, col_idx,
                  values);
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT int lscd_csr_unpack(const int* row_ptr, const int* col_idx, const uint16_t* values,
                                int64_t M, int64_t K, uint16_t* dense, cudaStream_t stream) {
    return launch(unpack, ceil_div(M, WARPS), THREADS, stream, row_ptr, col_idx, values,
                  Target(dense, M, K));
}

// found: the first row that has a problem.
LSCD_EXPORT int lscd_csr_check(const int* row_ptr, const int* col_idx, const uint16_t* values,
                               int64_t M, int64_t K, int64_t nnz, long long* found,
                               cudaStream_t stream) {
    return launch(check, ceil_div(M, WARPS), THREADS, stream, row_ptr, col_idx, values, M, K, nnz,
                  found);
}
