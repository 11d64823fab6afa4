// What exercises share. They run in the emulator alone: notebook 23 compiles them with an answer, which
// takes the place of what a file defines at its top.
#pragma once
#include "../common/problem.cuh"
#include "../common/ptx.cuh"

namespace lscd {

// One block of a kernel.
inline int run(void (*kernel)(Problem), const Problem* p, int threads, int shared_bytes) {
    Problem problem = *p;
    void* arguments[] = {&problem};
    return cudaLaunchKernel((const void*)kernel, dim3(1), dim3(threads), arguments, shared_bytes, nullptr);
}

}  // namespace lscd
