// CUDA's keywords, built-in variables, intrinsics and the few runtime calls that kernels/ uses, for the
// emulator. Every .cu file is compiled with `-include` of this one, as nvcc does with its own.
#pragma once
#include <climits>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ __thread

struct uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

#include "../warp.h"

#define threadIdx (lscd::simt::Block::lane->thread)
#define blockIdx (lscd::simt::Block::current->index)
#define blockDim (lscd::simt::Block::current->launch.threads)
#define gridDim (lscd::simt::Block::current->launch.grid)

// Each source has its own array for `extern __shared__ unsigned char memory[]`, one per worker thread:
// kernels are in an unnamed namespace, where the name cannot reach another source.
namespace lscd {
namespace {
__align__(128) __thread unsigned char memory[simt::SHARED_LIMIT];
[[maybe_unused]] const bool shared_is_known = [] {
    simt::machine.shared_arrays.push_back([]() -> unsigned char* { return memory; });
    return true;
}();
}  // namespace
}  // namespace lscd

template <class T>
T __ldg(const T* from, lscd::simt::Site site = lscd::simt::here()) {
    return lscd::simt::load_global(from, site);
}

inline int __popc(uint32_t bits, lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::note({lscd::simt::Op::popcount, site});
    return __builtin_popcount(bits);
}
inline int __popcll(uint64_t bits, lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::note({lscd::simt::Op::popcount, site});
    return __builtin_popcountll(bits);
}

inline void __syncthreads(lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::Block::current->barrier(site);
}
inline void __syncwarp(unsigned mask = ~0u, lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::sync_warp(mask, site);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, lscd::simt::Site site = lscd::simt::here()) {
    return lscd::simt::shuffle(mask, value, from % 32, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, lscd::simt::Site site = lscd::simt::here()) {
    return lscd::simt::shuffle(mask, value, (lscd::simt::Block::lane->lane ^ bits) % 32, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int by, lscd::simt::Site site = lscd::simt::here()) {
    int lane = lscd::simt::Block::lane->lane;
    return lscd::simt::shuffle(mask, value, lane >= by ? lane - by : lane, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, lscd::simt::Site site = lscd::simt::here()) {
    int lane = lscd::simt::Block::lane->lane;
    return lscd::simt::shuffle(mask, value, lane + by < 32 ? lane + by : lane, site);
}

inline unsigned __ballot_sync(unsigned mask, bool predicate,
                              lscd::simt::Site site = lscd::simt::here()) {
    return lscd::simt::vote(mask, predicate, site);
}

// --- the runtime ---

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorLaunchFailure = 719 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

inline const char* cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorInvalidValue    ? "the emulator has less shared memory"
           : error == cudaErrorLaunchFailure ? "the emulator found a fault"
                                             : "no error";
}

inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int bytes) {
    return bytes <= lscd::simt::SHARED_LIMIT ? cudaSuccess : cudaErrorInvalidValue;
}

inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int,
                                                                 size_t) {
    *blocks = 1;
    return cudaSuccess;
}

inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                                    size_t shared_bytes, cudaStream_t) {
    if (shared_bytes > lscd::simt::SHARED_LIMIT) return cudaErrorInvalidValue;
    lscd::simt::machine.kernels.push_back(kernel);
    lscd::simt::Launch launch = {reinterpret_cast<void (*)(lscd::Problem)>(kernel),
                                 *static_cast<lscd::Problem*>(arguments[0]),
                                 int(lscd::simt::machine.kernels.size()) - 1,
                                 {grid.x, grid.y, grid.z},
                                 {threads.x, threads.y, threads.z},
                                 int(shared_bytes)};
    return lscd::simt::machine.run(launch) ? cudaSuccess : cudaErrorLaunchFailure;
}

#include "../exports.h"
