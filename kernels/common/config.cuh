// What a kernel is launched with.
#pragma once
#include "problem.cuh"

namespace lscd {

// A compiled kernel void(Problem), and the blocks that it cuts C into.
struct Config {
    const void* kernel;
    int block_m, block_n, threads, shared_bytes;

    cudaError_t allow_shared() const {
        return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    }
    dim3 grid(const Problem& p) const {
        return dim3(ceil_div(p.M, block_m), ceil_div(p.N, block_n), p.split_k);
    }
};

}  // namespace lscd
