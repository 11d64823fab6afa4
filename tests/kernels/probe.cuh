// What the tests' kernels share: PROBE(name, kernel, threads) exports `probe_<name>(const Problem*)`,
// which launches one block of it with 16 KB of shared memory; PROBE_OF so many blocks.
#pragma once
#include "../../kernels/common/config.cuh"
#include "../../kernels/common/ptx.cuh"

#define PROBE(name, kernel, threads) PROBE_OF(name, kernel, 1, threads)
#define PROBE_OF(name, kernel, blocks, threads)                                                  \
    extern "C" __attribute__((visibility("default"))) int probe_##name(const lscd::Problem* p) { \
        void* arguments[] = {const_cast<lscd::Problem*>(p)};                                     \
        return cudaLaunchKernel((const void*)kernel, blocks, threads, arguments, 16384, nullptr); \
    }
