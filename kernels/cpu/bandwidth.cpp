// The read ceiling of this machine, against which kernels are judged.
#include "common.h"

using namespace lscd;

// Reads `bytes` (a multiple of 64) with `threads` threads; the sum keeps the compiler honest.
LSCD_EXPORT u64 lscd_read_all(const u64* data, i64 bytes, i64 threads) {
    constexpr i64 LINE = 8, AHEAD = 512;  // words
    i64 lines = bytes / 64;
    u64 total = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : total)
    for (i64 line = 0; line < lines; line++) {
        const u64* words = data + line * LINE;
        __builtin_prefetch(words + AHEAD);
        u64 sum = 0;
        for (i64 w = 0; w < LINE; w++) sum += words[w];
        total += sum;
    }
    return total;
}
