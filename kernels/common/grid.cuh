// Launching the grid of a kernel void(P) for one problem.
#pragma once
#include <cuda_runtime.h>

namespace lscd {

// Forgets an error that is told: whoever launches next would find it there.
inline int told(cudaError_t error) {
    if (error) cudaGetLastError();
    return error;
}

// An early grid begins once all blocks of the one before it let it (let_next_grid_begin) or have ended.
// It must wait for that one's end (wait_for_previous_grid) before it reads anything that grid, or any
// before it, may still write, and before it writes: then all of them have ended, if all have waited.
template <class P>
cudaError_t launch_grid(void (*kernel)(P), const P& p, dim3 grid, int threads, int shared_bytes,
                        cudaStream_t stream, bool early = true) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {grid,   dim3(threads), size_t(shared_bytes),
                                 stream, &attribute,    early ? 1u : 0u};
    return cudaLaunchKernelEx(&config, kernel, p);
}

}  // namespace lscd
