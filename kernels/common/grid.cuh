// Launching the grid of a kernel void(P) for one problem.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>

#include "config.cuh"

namespace lscd {

// Forgets an error that is told: whoever launches next would find it there.
inline int told(cudaError_t error) {
    if (error) cudaGetLastError();
    return error;
}

struct GridOptions {
    // An early grid begins once all blocks of the one before it let it (let_next_grid_begin) or have ended.
    // It must wait for that one's end (wait_for_previous_grid) before it reads anything that grid, or any
    // before it, may still write, and before it writes: then all of them have ended, if all have waited.
    bool early = true;
    // So many blocks along x run at the same time, and reach each other's shared memory.
    int cluster = 1;
    // What blocks of another grid, which are to run beside one of this, need of shared memory. CUDA divides
    // an SM's memory into that and cache as a grid's own blocks need it, in a few sizes, and not anew before
    // the SM is empty.
    int beside = 0;
};

template <class P>
cudaError_t launch_grid(void (*kernel)(P), const P& p, dim3 grid, int threads, int shared_bytes,
                        cudaStream_t stream, const GridOptions& options = {}) {
    cudaLaunchAttribute attributes[3] = {};
    unsigned count = 0;
    if (options.early) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (options.cluster > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim.x = unsigned(options.cluster);
        attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
        count++;
    }
    if (options.beside) {
        int bytes = shared_bytes + RESERVED_SHARED_BYTES + options.beside;
        int percent = std::min(100, (100 * bytes - 1) / SHARED_BYTES_PER_SM + 1);
        attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
        attributes[count++].val.sharedMemCarveout = unsigned(percent);
    }
    cudaLaunchConfig_t config = {grid, dim3(threads), size_t(shared_bytes), stream, attributes, count};
    return cudaLaunchKernelEx(&config, kernel, p);
}

}  // namespace lscd
