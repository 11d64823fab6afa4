// What lab_utils/backends/simt.py calls, beside the launchers of the kernels themselves. `used`:
// every library of kernels has these, though no source calls them.
#pragma once
#include <dlfcn.h>

#include "machine.h"

#define LSCD_EMULATOR_EXPORT extern "C" __attribute__((visibility("default"), used)) inline

// Global memory, workers and the watched block of what is launched next; forgets what was counted.
LSCD_EMULATOR_EXPORT void lscd_emulator_reset(const lscd::simt::Array* arrays, int32_t count,
                                              int32_t threads, int64_t watched) {
    lscd::simt::machine = {{arrays, arrays + count}, threads, watched};
}

// Why the last launch failed, or an empty text.
LSCD_EMULATOR_EXPORT const char* lscd_emulator_fault() {
    return lscd::simt::machine.fault.c_str();
}

// The launches so far, each as its kernel's offset in this library.
LSCD_EMULATOR_EXPORT int64_t lscd_emulator_kernels(int64_t* offsets) {
    const auto& kernels = lscd::simt::machine.kernels;
    for (size_t i = 0; offsets && i < kernels.size(); i++) {
        Dl_info library = {};
        dladdr(kernels[i], &library);
        offsets[i] = static_cast<const char*>(kernels[i]) - static_cast<char*>(library.dli_fbase);
    }
    return int64_t(kernels.size());
}

// Percent of an SM's memory that each launch wants to be shared; 0: left to CUDA.
LSCD_EMULATOR_EXPORT int64_t lscd_emulator_carveouts(const int** first) {
    *first = lscd::simt::machine.carveouts.data();
    return int64_t(lscd::simt::machine.carveouts.size());
}

// What was counted, per worker: the same line may come more than once.
LSCD_EMULATOR_EXPORT int64_t lscd_emulator_lines(const lscd::simt::Line** first) {
    *first = lscd::simt::machine.lines.data();
    return int64_t(lscd::simt::machine.lines.size());
}

// The requests of the watched block, in the order of each warp.
LSCD_EMULATOR_EXPORT int64_t lscd_emulator_requests(const lscd::simt::Request** first) {
    *first = lscd::simt::machine.requests.data();
    return int64_t(lscd::simt::machine.requests.size());
}
