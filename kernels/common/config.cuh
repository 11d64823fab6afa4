// What a kernel is launched with.
#pragma once
#include "problem.cuh"

namespace lscd {

// Shared memory of an SM of the GPU that code is compiled for.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr int SHARED_BYTES_PER_SM = 228 * 1024;
#elif __CUDA_ARCH__ == 800
constexpr int SHARED_BYTES_PER_SM = 164 * 1024;
#else
constexpr int SHARED_BYTES_PER_SM = 100 * 1024;
#endif

// What a block can have on every GPU that these kernels are for; the least is that of sm_86, 89 and 120.
constexpr int SMALLEST_SHARED_BYTES = 99 * 1024;

// A compiled kernel void(Problem), and the blocks that it cuts C into.
struct Config {
    const void* kernel;
    int block_m, block_n, threads, shared_bytes;

    cudaError_t allow_shared() const {
        return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    }
    dim3 grid(const Problem& p) const {
        return dim3(p.workers, ceil_div(p.N, block_n));
    }
};

}  // namespace lscd
