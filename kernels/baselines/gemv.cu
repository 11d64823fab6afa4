// The dense product with one vector, as fast as the weights can be read: y[M] = W[M, K] * x[K].
//
//   block    8 warps = 8 / WARPS_PER_ROW rows; the warps of a row take turns of 32 vectors along K
//   lane     UNROLL loads of 16 bytes of W in flight; x comes from L1; sums in fp32
//
// How many warps share a row is chosen by the caller: enough blocks to balance the SMs, enough
// steps per warp to pay for the sum over lanes.
#include "../common/store.cuh"
#include "values.cuh"

namespace lscd {
namespace {

constexpr int WARPS = 8, UNROLL = 4;

// Sum of one thread's share of a row: vectors first, first + threads, …
template <class T, int VEC>
__device__ float dot(const T* w, const T* x, int K, int first, int threads) {
    float sum = 0;
    int vectors = K / VEC;
    for (int base = first; base < vectors; base += UNROLL * threads) {
        Vector<T, VEC> part[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (int v = base + u * threads; v < vectors) part[u] = part[u].streamed(w + v * VEC);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            int v = base + u * threads;
            if (v >= vectors) break;
            auto factors = Vector<T, VEC>::cached(x + v * VEC);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                sum = fmaf(to_float(part[u].data[i]), to_float(factors.data[i]), sum);
        }
    }
    return sum;
}

template <class T, int VEC, int WARPS_PER_ROW>
__global__ void __launch_bounds__(WARPS * 32) gemv(const T* W, const T* x, T* y, int M, int K) {
    constexpr int ROWS = WARPS / WARPS_PER_ROW;
    __shared__ float sums[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = blockIdx.x * ROWS + warp / WARPS_PER_ROW;
    float sum = 0;
    if (row < M)
        sum = dot<T, VEC>(W + int64_t(row) * K, x, K, warp % WARPS_PER_ROW * 32 + lane,
                          WARPS_PER_ROW * 32);
    sum = warp_sum(sum);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    row = blockIdx.x * ROWS + threadIdx.x;
    if (threadIdx.x >= ROWS || row >= M) return;
    float total = 0;
    for (int i = 0; i < WARPS_PER_ROW; i++) total += sums[threadIdx.x * WARPS_PER_ROW + i];
    round_to(y + row, total);
}

template <class T, int VEC, int WARPS_PER_ROW>
cudaError_t launch(const void* W, const void* x, void* y, int M, int K, cudaStream_t stream) {
    gemv<T, VEC, WARPS_PER_ROW><<<ceil_div(M, WARPS / WARPS_PER_ROW), WARPS * 32, 0, stream>>>(
        static_cast<const T*>(W), static_cast<const T*>(x), static_cast<T*>(y), M, K);
    return cudaGetLastError();
}

// Rows that do not begin at a multiple of 16 bytes are read value by value.
template <class T>
cudaError_t choose(const void* W, const void* x, void* y, int M, int K, int warps_per_row,
                   cudaStream_t stream) {
    if (K % 8) return launch<T, 1, WARPS>(W, x, y, M, K, stream);
    if (warps_per_row == 1) return launch<T, 8, 1>(W, x, y, M, K, stream);
    if (warps_per_row == 2) return launch<T, 8, 2>(W, x, y, M, K, stream);
    if (warps_per_row == 4) return launch<T, 8, 4>(W, x, y, M, K, stream);
    return launch<T, 8, 8>(W, x, y, M, K, stream);
}

}  // namespace
}  // namespace lscd

// W [M][K] and x [K] begin at multiples of 16 bytes; warps_per_row is 1, 2, 4 or 8.
LSCD_EXPORT int lscd_gemv(int32_t dtype, const void* W, const void* x, void* y, int32_t M, int32_t K,
                          int32_t warps_per_row, cudaStream_t stream) {
    using namespace lscd;
    return Dtype(dtype) == Dtype::fp16
               ? choose<__half>(W, x, y, M, K, warps_per_row, stream)
               : choose<__nv_bfloat16>(W, x, y, M, K, warps_per_row, stream);
}

LSCD_EXPORT const char* lscd_baselines_error(int error) { return cudaGetErrorString(cudaError_t(error)); }
