// Kernels with one fault each, at the line marked `here`, for tests/test_emulator_faults.py. A launch is
// one block of 64 threads.
#include "probe.cuh"

namespace lscd {
namespace {

#define SHARED_INTS                                          \
    extern __shared__ __align__(128) unsigned char memory[]; \
    Shared<int> shared(memory);                              \
    int i = int(threadIdx.x);

__global__ void race_of_warps(const __grid_constant__ Problem) {
    SHARED_INTS
    shared.store(i, 0);
    __syncthreads();
    if (i < 32) shared.store(i, i);
    if (i >= 32) shared.load(i - 32);  // here
}

__global__ void race_of_lanes(const __grid_constant__ Problem) {
    SHARED_INTS
    shared.store(i, 0);
    __syncwarp();
    shared.store(i, i);
    shared.load(i & ~1);  // here
}

__global__ void two_writers(const __grid_constant__ Problem) {
    SHARED_INTS
    shared.store(i / 2, i);  // here
}

__global__ void atomic_and_load(const __grid_constant__ Problem) {
    SHARED_INTS
    shared.store(i, i);
    __syncthreads();
    shared.store_min(0, -i);  // here
    shared.load(0);
}

__global__ void overwritten_too_early(const __grid_constant__ Problem) {
    SHARED_INTS
    shared.store(i, i);
    __syncthreads();
    if (i < 32) shared.load(i + 32);
    __syncwarp();  // of the lanes of one warp: not enough
    shared.store(i, 0);  // here
}

__global__ void no_wait(const __grid_constant__ Problem p) {
    SHARED_INTS
    cp_async_16(shared, 4 * i, static_cast<const int*>(p.A[0]) + 4 * i);
    cp_async_commit();
    __syncthreads();
    shared.load(4 * i);  // here
}

__global__ void wait_for_the_wrong_group(const __grid_constant__ Problem p) {
    SHARED_INTS
    for (int half = 0; half < 2; half++) {
        cp_async_16(shared, 256 * half + 4 * i, static_cast<const int*>(p.A[0]) + 4 * i);
        cp_async_commit();
    }
    cp_async_wait<1>();
    __syncthreads();
    shared.load(4 * i);
    shared.load(256 + 4 * i);  // here
}

__global__ void wait_without_barrier(const __grid_constant__ Problem p) {
    SHARED_INTS
    cp_async_16(shared, 4 * i, static_cast<const int*>(p.A[0]) + 4 * i);
    cp_async_commit();
    cp_async_wait<0>();
    shared.load(4 * (i & ~32));  // here
}

__global__ void unwritten(const __grid_constant__ Problem) {
    SHARED_INTS
    if (i < 40) shared.store(i, i);
    __syncthreads();
    shared.load(i);  // here
}

__global__ void out_of_shared_memory(const __grid_constant__ Problem) {
    SHARED_INTS
    shared.store(16384 / 4 - 36 + i, i);  // here
}

__global__ void misaligned(const __grid_constant__ Problem) {
    SHARED_INTS
    Shared<uint4>(memory + 16 * i + 4 * (i / 63)).store(0, uint4{});  // here
}

__global__ void store_out_of_bounds(const __grid_constant__ Problem p) {
    st_global(static_cast<int*>(p.C) + 220 + threadIdx.x, 1);  // here
}

__global__ void load_out_of_bounds(const __grid_constant__ Problem p) {
    __ldg(static_cast<const int*>(p.A[0]) + 193 + threadIdx.x);  // here
}

__global__ void store_to_an_operand(const __grid_constant__ Problem p) {
    st_global(static_cast<int*>(const_cast<void*>(p.A[0])), 1);  // here
}

__global__ void barrier_of_some(const __grid_constant__ Problem) {
    if (threadIdx.x < 48) __syncthreads();  // here
}

__global__ void two_barriers(const __grid_constant__ Problem) {
    if (threadIdx.x < 32) __syncthreads();  // here
    else __syncthreads();
}

__global__ void shuffle_of_some(const __grid_constant__ Problem) {
    if (threadIdx.x % 32 < 8) __shfl_sync(~0u, 1, 0);  // here
    else __syncthreads();
}

__global__ void shuffle_from_nobody(const __grid_constant__ Problem) {
    if (threadIdx.x % 32 < 8) __shfl_sync(0xff, 1, 8);  // here
}

__global__ void mma_of_some(const __grid_constant__ Problem) {
    float d[4] = {};
    uint32_t a[4] = {}, b[2] = {};
    if (threadIdx.x == 40) return;
    mma_m16n8k16<__half>(d, a, b);  // here
}

}  // namespace
}  // namespace lscd

using namespace lscd;

#define FAULTY(kernel) PROBE(kernel, kernel, 64)
FAULTY(race_of_warps)
FAULTY(race_of_lanes)
FAULTY(two_writers)
FAULTY(atomic_and_load)
FAULTY(overwritten_too_early)
FAULTY(no_wait)
FAULTY(wait_for_the_wrong_group)
FAULTY(wait_without_barrier)
FAULTY(unwritten)
FAULTY(out_of_shared_memory)
FAULTY(misaligned)
FAULTY(store_out_of_bounds)
FAULTY(load_out_of_bounds)
FAULTY(store_to_an_operand)
FAULTY(barrier_of_some)
FAULTY(two_barriers)
FAULTY(shuffle_of_some)
FAULTY(shuffle_from_nobody)
FAULTY(mma_of_some)
