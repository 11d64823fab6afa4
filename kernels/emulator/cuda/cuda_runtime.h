// CUDA's keywords, built-in variables, intrinsics and the few runtime calls that kernels/ uses, for the
// emulator. Every .cu file is compiled with `-include` of this one, as nvcc does with its own.
#pragma once
#include <cstdint>
#include <map>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ __thread

struct int2 {
    int x, y;
};
struct uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

#include "../../common/problem.cuh"
#include "../instructions/global.h"
#include "../instructions/warp.h"

#define threadIdx (lscd::simt::Block::lane->thread)
#define blockIdx (lscd::simt::Block::lane->warp->block)
#define blockDim (lscd::simt::Block::current->launch.threads)
#define gridDim (lscd::simt::Block::current->launch.grid)

// Each source has its own array for `extern __shared__ unsigned char memory[]`, one per worker thread:
// kernels are in an unnamed namespace, where the name cannot reach another source. It has the parts of
// all blocks of a cluster.
namespace lscd {
namespace {
__align__(128) __thread unsigned char memory[(simt::MOST_CLUSTER - 1) * simt::PART + simt::SHARED_LIMIT];
[[maybe_unused]] const bool shared_is_known = [] {
    simt::shared_arrays.push_back([]() -> unsigned char* { return memory; });
    return true;
}();
}  // namespace
}  // namespace lscd

inline int __popc(uint32_t bits, lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::note({lscd::simt::Op::popcount, site});
    return __builtin_popcount(bits);
}
inline int __popcll(uint64_t bits, lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::note({lscd::simt::Op::popcount, site});
    return __builtin_popcountll(bits);
}

// c + the products of a's halves with the lower two bytes of b.
inline uint32_t __dp2a_lo(uint32_t a, uint32_t b, uint32_t c) {
    return c + (a & 0xffff) * (b & 255) + (a >> 16) * (b >> 8 & 255);
}
// c + the products of a's and b's bytes.
inline uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int shift = 0; shift < 32; shift += 8) c += (a >> shift & 255) * (b >> shift & 255);
    return c;
}
inline int __dp4a(int a, int b, int c) {
    for (int shift = 0; shift < 32; shift += 8) c += int8_t(a >> shift) * int8_t(b >> shift);
    return c;
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t by) {
    return uint32_t((uint64_t(high) << 32 | low) << by % 32 >> 32);
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t by) {
    return uint32_t((uint64_t(high) << 32 | low) >> by % 32);
}
inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline int __float_as_int(float value) {
    int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// --- the runtime ---

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorLaunchFailure = 719 };
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};
enum cudaSharedCarveout { cudaSharedmemCarveoutMaxShared = 100 };

inline const char* cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorInvalidValue    ? "no GPU has such a grid, so many threads, or so much shared memory"
           : error == cudaErrorLaunchFailure ? "the emulator found a fault"
                                             : "no error";
}

inline cudaError_t cudaGetLastError() { return cudaSuccess; }

// By kernel: dynamic shared memory that it may have beyond what every kernel may.
inline std::map<const void*, size_t> allowed_shared_bytes;

inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int bytes) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (bytes > lscd::simt::SHARED_LIMIT) return cudaErrorInvalidValue;
    return allowed_shared_bytes[kernel] = bytes, cudaSuccess;
}

enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
    return *value = lscd::simt::SHARED_LIMIT, cudaSuccess;
}

inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int,
                                                                 size_t) {
    *blocks = 1;
    return cudaSuccess;
}

namespace lscd::simt {
// What a launch may say beside its sizes.
struct Attributes {
    bool early = false;
    dim3 cluster = 1;
    unsigned carveout = 0;  // percent of an SM's memory that is to be shared; 0: left to CUDA

    bool fit(dim3 grid) const {
        return cluster.x >= 1 && cluster.x <= MOST_CLUSTER && cluster.y == 1 && cluster.z == 1 &&
               grid.x % cluster.x == 0 && carveout <= 100;
    }
};

inline bool can_launch(const void* kernel, dim3 grid, dim3 threads, size_t shared_bytes) {
    constexpr unsigned MOST_X = 0x7fffffff, MOST_YZ = 65535;
    constexpr size_t ALWAYS_ALLOWED = 48 * 1024;
    return grid.x <= MOST_X && grid.y <= MOST_YZ && grid.z <= MOST_YZ &&
           threads.x * threads.y * threads.z <= MOST_THREADS &&
           (shared_bytes <= ALWAYS_ALLOWED || shared_bytes <= allowed_shared_bytes[kernel]);
}

inline cudaError_t run(const void* kernel, std::function<void()> thread, dim3 grid, dim3 threads,
                       size_t shared_bytes, const Attributes& also) {
    if (!can_launch(kernel, grid, threads, shared_bytes) || !also.fit(grid)) return cudaErrorInvalidValue;
    machine.kernels.push_back(kernel);
    machine.carveouts.push_back(int(also.carveout));
    Launch launch = {std::move(thread), int(machine.kernels.size()) - 1, {grid.x, grid.y, grid.z},
                     {threads.x, threads.y, threads.z}, int(shared_bytes), also.early,
                     int(also.cluster.x)};
    return machine.run(launch) ? cudaSuccess : cudaErrorLaunchFailure;
}
}  // namespace lscd::simt

// Kernels that are launched without their type take one Problem.
inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                                    size_t shared_bytes, cudaStream_t) {
    auto typed = reinterpret_cast<void (*)(lscd::Problem)>(kernel);
    lscd::Problem problem = *static_cast<lscd::Problem*>(arguments[0]);
    return lscd::simt::run(kernel, [=] { typed(problem); }, grid, threads, shared_bytes, {});
}

enum cudaLaunchAttributeID {
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePreferredSharedMemoryCarveout = 14,
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    union {
        int programmaticStreamSerializationAllowed;
        unsigned sharedMemCarveout;
        struct {
            unsigned x, y, z;
        } clusterDim;
    } val;
};
// Members in CUDA's order; two of CUDA's names are macros here.
struct cudaLaunchConfig_t {
    dim3 grid, threads;
    size_t shared_bytes;
    cudaStream_t stream;
    const cudaLaunchAttribute* attributes;
    unsigned count;
};

template <class... Takes, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Takes...),
                               Given&&... given) {
    lscd::simt::Attributes also;
    for (const cudaLaunchAttribute* one = config->attributes; one < config->attributes + config->count; one++) {
        auto& value = one->val;
        if (one->id == cudaLaunchAttributeClusterDimension)
            also.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        if (one->id == cudaLaunchAttributeProgrammaticStreamSerialization)
            also.early = value.programmaticStreamSerializationAllowed != 0;
        if (one->id == cudaLaunchAttributePreferredSharedMemoryCarveout)
            also.carveout = value.sharedMemCarveout;
    }
    return lscd::simt::run((const void*)kernel, [=] { kernel(given...); }, config->grid,
                           config->threads, config->shared_bytes, also);
}

#include "../machine/exports.h"
