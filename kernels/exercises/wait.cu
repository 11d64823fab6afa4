// How many groups of copies may still be under way when a tile is needed?
#include "exercise.cuh"

#ifndef PENDING
#define PENDING 2
#endif

namespace lscd {
namespace {

constexpr int THREADS = 64;

// Each thread adds up what its neighbour copied, tile after tile; there are two buffers. A: K tiles of
// [THREADS][4]; C: a sum for each thread.
__global__ void wait(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint4> buffers(memory);
    const uint4* from = static_cast<const uint4*>(p.A[0]) + threadIdx.x;
    uint32_t sum = 0;
    auto send = [&](int t) {
        if (t < p.K) cp_async_16(buffers, t % 2 * THREADS + threadIdx.x, from + t * THREADS);
        cp_async_commit();
    };

    send(0);
    for (int t = 0; t < p.K; t++) {
        send(t + 1);
        cp_async_wait<PENDING>();
        __syncthreads();
        uint4 four = buffers.load(t % 2 * THREADS + (threadIdx.x + 1) % THREADS);
        sum += four.x + four.y + four.z + four.w;
        __syncthreads();
    }
    st_global(static_cast<uint32_t*>(p.C) + threadIdx.x, sum);
}

}  // namespace
}  // namespace lscd

LSCD_EXPORT int lscd_exercise_wait(const lscd::Problem* p) {
    return lscd::run(lscd::wait, p, lscd::THREADS, 2 * lscd::THREADS * 16);
}
