// SpMM on CSR without tensor cores, after Sputnik (Gale et al., SC 2020), with 32-bit columns.
//
//   1-D tiling      a subwarp owns one row of A and up to 64 columns of C
//   row swizzle     subwarps take rows in `order`, longest first: lanes of a warp end together, and
//                   the last blocks are the short ones
//   vector loads    a row is read from the last multiple of 4 before it, 4 non-zeros per lane
//                   (reverse offset); what is not of the row points at a row of zeros below B
//
//   N > 8   8 lanes to a row put 32 non-zeros in shared memory, and each multiplies all of them with
//           its 2, 4 or 8 columns of B
//   N <= 8  16 or 32 lanes to a row; each multiplies the 4 non-zeros that it loaded with whole rows
//           of B, and the sums are added over lanes
#include "../common/store.cuh"
#include "values.cuh"

namespace lscd {

// C[M, N] = A[M, K] * B[K, N] (+ add, of C's strides): as baselines/csr_simt.py passes it.
struct CsrProduct {
    Dtype dtype;
    int32_t M, K, N;
    const int32_t *row_ptr, *col_idx;  // col_idx and values: padded to multiples of 4, 16-byte aligned
    const void* values;
    const int32_t* order;  // [M], the rows in the order they are worked on
    const void* B;         // [K + 1][ldb], the last row zeros, at most 2^32 bytes
    int64_t ldb;           // 1 for N = 1, else a multiple of 8
    const void* add;  // null, or what is added to each sum before it is rounded
    void* C;
    int64_t stride_m, stride_n;
};

namespace {

constexpr int PER_LANE = 4;  // non-zeros that a lane loads at once
constexpr int NARROW_THREADS = 128;
constexpr int WIDE_LANES = 8, WIDE_THREADS = 32;

// Warps of an SM, by the columns of a lane: few enough to have registers for several loads of B,
// measured on an H200.
constexpr int narrow_warps(int vec) { return vec == 1 ? 48 : 36; }
constexpr int wide_warps(int vec) { return vec == 8 ? 24 : 32; }

// One subwarp's row, and the non-zeros that each of its lanes has loaded: rows of B, as bytes from
// its beginning, and what they are multiplied by.
template <class T, int LANES>
struct Row {
    static constexpr int TILE = LANES * PER_LANE;
    const CsrProduct& p;
    int lane, row, first, last, tiles;
    uint32_t pitch;
    uint4 offset;
    Vector<T, PER_LANE> value;

    __device__ explicit Row(const CsrProduct& p)
        : p(p), lane(threadIdx.x % LANES), pitch(uint32_t(p.ldb * sizeof(T))) {
        int slot = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
        row = slot < p.M ? __ldg(p.order + slot) : p.M;
        first = row < p.M ? __ldg(p.row_ptr + row) : 0;
        last = row < p.M ? __ldg(p.row_ptr + row + 1) : 0;
        // All rows of a warp take as many steps as the longest: it stays converged.
        tiles = __reduce_max_sync(~0u, ceil_div(last - first / PER_LANE * PER_LANE, TILE));
    }

    __device__ void load(int tile) {
        int at = first / PER_LANE * PER_LANE + tile * TILE + lane * PER_LANE;
        uint32_t zeros = p.K * pitch;
        offset = make_uint4(zeros, zeros, zeros, zeros);
        value = {};
        if (at >= last) return;
        int4 cols = __ldcs(reinterpret_cast<const int4*>(p.col_idx + at));
        auto values = Vector<T, PER_LANE>::streamed(static_cast<const T*>(p.values) + at);
        take(offset.x, value.data[0], at, cols.x, values.data[0]);
        take(offset.y, value.data[1], at + 1, cols.y, values.data[1]);
        take(offset.z, value.data[2], at + 2, cols.z, values.data[2]);
        take(offset.w, value.data[3], at + 3, cols.w, values.data[3]);
    }

    __device__ void take(uint32_t& to_offset, T& to_value, int at, int col, T value) const {
        if (at < first || at >= last) return;
        to_offset = col * pitch, to_value = value;
    }

    template <int VEC>
    __device__ void store(const float (&sum)[VEC], int n0) const {
        if (row >= p.M) return;
#pragma unroll
        for (int i = 0; i < VEC; i++) {
            if (n0 + i >= p.N) break;
            int64_t at = row * p.stride_m + (n0 + i) * p.stride_n;
            float more = p.add ? to_float(static_cast<const T*>(p.add)[at]) : 0.0f;
            round_to(static_cast<T*>(p.C) + at, sum[i] + more);
        }
    }
};

// sum += four values times VEC columns of four rows of B, all of which are loaded first.
template <class T, int VEC>
__device__ void add_products(float (&sum)[VEC], const Vector<T, PER_LANE>& value, const void* B,
                             uint4 offset) {
    auto at = [B](uint32_t bytes) {
        return Vector<T, VEC>::cached(
            reinterpret_cast<const T*>(static_cast<const char*>(B) + bytes));
    };
    Vector<T, VEC> b[] = {at(offset.x), at(offset.y), at(offset.z), at(offset.w)};
#pragma unroll
    for (int k = 0; k < PER_LANE; k++)
#pragma unroll
        for (int i = 0; i < VEC; i++)
            sum[i] = fmaf(to_float(value.data[k]), to_float(b[k].data[i]), sum[i]);
}

// N <= VEC: ldb is VEC.
template <class T, int VEC, int LANES>
__global__ void __launch_bounds__(NARROW_THREADS, narrow_warps(VEC) * 32 / NARROW_THREADS)
    csr_narrow(CsrProduct p) {
    Row<T, LANES> row(p);
    float sum[VEC] = {};
    row.load(0);
    for (int tile = 0; tile < row.tiles; tile++) {
        uint4 offset = row.offset;
        auto value = row.value;
        row.load(tile + 1);
        add_products(sum, value, p.B, offset);
    }
#pragma unroll
    for (int i = 0; i < VEC; i++) sum[i] = warp_sum(sum[i], LANES);
    if (row.lane == 0) row.store(sum, 0);
}

// Columns blockIdx.y * WIDE_LANES * VEC and on; ldb is a multiple of VEC.
template <class T, int VEC>
__global__ void __launch_bounds__(WIDE_THREADS, wide_warps(VEC) * 32 / WIDE_THREADS)
    csr_wide(CsrProduct p) {
    // One more than needed: the four rows of a warp lie in different banks.
    __shared__ uint4 offsets[WIDE_THREADS / WIDE_LANES][WIDE_LANES + 1];
    __shared__ Vector<T, PER_LANE> values[WIDE_THREADS / WIDE_LANES][WIDE_LANES + 1];
    Row<T, WIDE_LANES> row(p);
    int group = threadIdx.x / WIDE_LANES, n0 = (blockIdx.y * WIDE_LANES + row.lane) * VEC;
    const T* B = static_cast<const T*>(p.B) + (n0 < p.ldb ? n0 : 0);
    float sum[VEC] = {};
    row.load(0);
    for (int tile = 0; tile < row.tiles; tile++) {
        offsets[group][row.lane] = row.offset;
        values[group][row.lane] = row.value;
        __syncwarp();
        row.load(tile + 1);
#pragma unroll 4
        for (int j = 0; j < WIDE_LANES; j++)
            add_products(sum, values[group][j], B, offsets[group][j]);
        __syncwarp();
    }
    row.store(sum, n0);
}

template <class T, int VEC, int LANES>
void launch_narrow(const CsrProduct& p, cudaStream_t stream) {
    int blocks = ceil_div(p.M, NARROW_THREADS / LANES);
    csr_narrow<T, VEC, LANES><<<blocks, NARROW_THREADS, 0, stream>>>(p);
}

template <class T, int VEC>
void launch_wide(const CsrProduct& p, cudaStream_t stream) {
    dim3 blocks(ceil_div(p.M, WIDE_THREADS / WIDE_LANES), ceil_div(p.N, WIDE_LANES * VEC));
    csr_wide<T, VEC><<<blocks, WIDE_THREADS, 0, stream>>>(p);
}

template <class T>
void launch(const CsrProduct& p, cudaStream_t stream) {
    if (p.N == 1) return launch_narrow<T, 1, 32>(p, stream);
    if (p.N <= 8) return launch_narrow<T, 8, 16>(p, stream);
    if (p.N <= 16) return launch_wide<T, 2>(p, stream);
    if (p.N <= 32) return launch_wide<T, 4>(p, stream);
    launch_wide<T, 8>(p, stream);
}

}  // namespace
}  // namespace lscd

LSCD_EXPORT int lscd_csr_simt(const lscd::CsrProduct* p, cudaStream_t stream) {
    using namespace lscd;
    p->dtype == Dtype::fp16 ? launch<__half>(*p, stream) : launch<__nv_bfloat16>(*p, stream);
    return cudaGetLastError();
}
