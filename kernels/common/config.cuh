// What a kernel is launched with.
#pragma once
#include "problem.cuh"

namespace lscd {

// Shared memory of an SM of the GPU that code is compiled for; on the host, of sm_90.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr int SHARED_BYTES_PER_SM = 228 * 1024;
#elif __CUDA_ARCH__ == 800
constexpr int SHARED_BYTES_PER_SM = 164 * 1024;
#else
constexpr int SHARED_BYTES_PER_SM = 100 * 1024;
#endif

// Of which every block has so much for CUDA, and the rest in units of so many.
constexpr int RESERVED_SHARED_BYTES = 1024, SHARED_UNIT = 128;

// What a block can have on every GPU that these kernels are for; the least is that of sm_86, 89 and 120.
constexpr int SMALLEST_SHARED_BYTES = 99 * 1024;

// A compiled kernel void(Problem), and the blocks that it cuts C into.
struct Config {
    const void* kernel;
    int block_m, block_n, threads, shared_bytes;

    // What launches ask for: so much that an SM has no room for more blocks than p.at_once.
    int shared_bytes_for(const Problem& p) const {
        int too_many = p.at_once + 1, room = SHARED_BYTES_PER_SM / too_many - RESERVED_SHARED_BYTES;
        return p.at_once && room >= shared_bytes ? (room / SHARED_UNIT + 1) * SHARED_UNIT : shared_bytes;
    }
    // The limit belongs to the kernel, and launches in other threads may need another size: so it is
    // always all that the GPU has.
    cudaError_t allow_shared(const Problem& p) const {
        int bytes = SHARED_BYTES_PER_SM - RESERVED_SHARED_BYTES, device = 0;
        if (!p.sm90) {
            cudaError_t error = cudaGetDevice(&device);
            auto most = cudaDevAttrMaxSharedMemoryPerBlockOptin;
            if (!error) error = cudaDeviceGetAttribute(&bytes, most, device);
            if (error) return error;
        }
        return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    }
    dim3 grid(const Problem& p) const {
        return dim3(p.workers, ceil_div(p.N, block_n));
    }
};

}  // namespace lscd
