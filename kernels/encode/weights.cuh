// What the GPU encoders share: the dense matrix that they read and decoders write, launches, and how
// a check reports what it found. Only the bits of a weight count: it is zero where they are +0.
#pragma once
#include "../common/base.cuh"
#include "../common/grid.cuh"
#include "../common/ptx.cuh"

namespace lscd {

constexpr int LANES = 32;
constexpr unsigned ALL_LANES = ~0u;

__device__ inline int lane_id() { return threadIdx.x % LANES; }
__device__ inline int warp_id() { return threadIdx.x / LANES; }
__device__ inline unsigned lanes_below() { return (1u << lane_id()) - 1; }

// Sum over the lanes up to this one.
__device__ inline int inclusive_scan(int value) {
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        int below = __shfl_up_sync(ALL_LANES, value, d);
        if (lane_id() >= d) value += below;
    }
    return value;
}

// Eight weights in a register each two.
__device__ inline uint32_t half_of(uint32_t pair, int i) { return i ? pair >> 16 : pair & 0xffff; }
__device__ inline uint32_t half_of(uint4 eight, int i) {
    uint32_t pair = i < 2 ? eight.x : i < 4 ? eight.y : i < 6 ? eight.z : eight.w;
    return half_of(pair, i % 2);
}

// Bit i is set where weight i is non-zero.
__device__ inline uint32_t nonzero_mask(uint32_t pair) {
    return uint32_t((pair & 0xffff) != 0) | uint32_t(pair >> 16 != 0) << 1;
}
__device__ inline uint32_t nonzero_mask(uint4 eight) {
    return nonzero_mask(eight.x) | nonzero_mask(eight.y) << 2 | nonzero_mask(eight.z) << 4 |
           nonzero_mask(eight.w) << 6;
}

// A dense matrix [M, K], row-major; Weight is uint16_t, const for what is read. Weights outside of it
// are zeros. Rows that start on 16 bytes are read and written eight weights at a time.
template <class Weight>
struct Matrix {
    Weight* weights;
    int64_t M, K;
    bool aligned;

    Matrix(Weight* weights, int64_t M, int64_t K)
        : weights(weights), M(M), K(K),
          aligned(K % 8 == 0 && reinterpret_cast<uintptr_t>(weights) % 16 == 0) {}

    __device__ bool inside(int64_t m, int64_t k) const { return m < M && k < K; }
    __device__ Weight* at(int64_t m, int64_t k) const { return weights + m * K + k; }

    __device__ uint32_t load(int64_t m, int64_t k) const {
        return inside(m, k) ? ld_global(at(m, k)) : 0;
    }

    // Weights (m, k) and (m, k + 1); k is even.
    __device__ uint32_t load2(int64_t m, int64_t k) const {
        if (!aligned) return load(m, k) | load(m, k + 1) << 16;
        return inside(m, k) ? __ldg(reinterpret_cast<const uint32_t*>(at(m, k))) : 0;
    }

    // Weights (m, k) to (m, k + 7); k is a multiple of 8.
    __device__ uint4 load8(int64_t m, int64_t k) const {
        if (!aligned)
            return make_uint4(load2(m, k), load2(m, k + 2), load2(m, k + 4), load2(m, k + 6));
        return load_aligned8(m, k);
    }
    // The same of a matrix that is aligned.
    __device__ uint4 load_aligned8(int64_t m, int64_t k) const {
        return inside(m, k) ? __ldg(reinterpret_cast<const uint4*>(at(m, k))) : uint4{0, 0, 0, 0};
    }

    __device__ void store8(int64_t m, int64_t k, uint4 eight) const {
        if (aligned) {
            if (inside(m, k)) st_global(reinterpret_cast<uint4*>(at(m, k)), eight);
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (inside(m, k + i)) st_global(at(m, k + i), uint16_t(half_of(eight, i)));
    }
};

using Source = Matrix<const uint16_t>;
using Target = Matrix<uint16_t>;

// found[0] = min(found[0], 16 * i + problem), the number of the first place that has a problem, and
// which of a format's problems (1 to 15) it is.
__device__ inline void report(long long* found, int64_t i, int problem) {
    if (problem) atomicMin(found, 16 * i + problem);
}

// Runs kernel(arguments ...) in `blocks` blocks, with dynamic shared memory; returns the cudaError_t
// of the launch.
template <class... Parameters, class... Arguments>
int launch_with(int shared_bytes, void (*kernel)(Parameters...), int64_t blocks, int threads,
                cudaStream_t stream, Arguments... arguments) {
    cudaLaunchConfig_t config = {dim3(unsigned(blocks)), dim3(threads), size_t(shared_bytes),
                                 stream, nullptr, 0};
    return told(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <class... Parameters, class... Arguments>
int launch(void (*kernel)(Parameters...), int64_t blocks, int threads, cudaStream_t stream,
           Arguments... arguments) {
    return launch_with(0, kernel, blocks, threads, stream, arguments...);
}

}  // namespace lscd
