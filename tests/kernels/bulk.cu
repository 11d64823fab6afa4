// mbarriers and bulk copies, for tests/test_emulator_bulk.py: kernels that use them rightly, and kernels
// with one fault each, at the line marked `here`. A launch is one block of 64 threads.
#include "probe.cuh"

namespace lscd {
namespace {

// An mbarrier at 0, and buffers of 512 bytes behind it, at 1024 and 2048.
#define BULK                                                  \
    extern __shared__ __align__(128) unsigned char memory[];  \
    Address barrier = shared_address(memory);                 \
    Address buffer = barrier + 1024, other = barrier + 2048;  \
    const int* A = static_cast<const int*>(p.A[0]);           \
    int* C = static_cast<int*>(p.C);                          \
    int i = int(threadIdx.x);                                 \
    (void)buffer, (void)other, (void)A, (void)C, (void)i;

__device__ void make(Address barrier, int arrivals = 1) {
    if (threadIdx.x == 0) mbarrier_init(barrier, arrivals), mbarrier_init_fence();
    __syncthreads();
}

__device__ void copy(Address to, const void* from, uint32_t bytes, Address barrier) {
    lane_bulk_copy(to, from, bytes, barrier, evict_first());
}

// --- right ---

// Two warps read the same buffer, filled M times: all have read it before it is filled again.
__global__ void refilled(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    int sum = 0;
    for (int turn = 0; turn < p.M; turn++) {
        if (i == 0) copy(buffer, A + 64 * turn, 256, barrier);
        mbarrier_wait(barrier, turn % 2);
        sum += int(ld_shared(buffer + 4 * i));
        __syncthreads();
    }
    st_global(C + i, sum);
}

// Warp 0 fills, warp 1 reads. The barrier behind the first counts who has read.
__global__ void producer_and_consumer(const __grid_constant__ Problem p) {
    BULK
    Address empty = barrier + 8;
    if (i == 0) mbarrier_init(empty, 32);
    make(barrier);
    for (int turn = 0; turn < p.M; turn++) {
        if (i == 0) {
            if (turn) mbarrier_wait(empty, (turn - 1) % 2);
            copy(buffer, A + 32 * turn, 128, barrier);
        } else if (i >= 32) {
            mbarrier_wait(barrier, turn % 2);
            st_global(C + 32 * turn + i - 32, int(ld_shared(buffer + 4 * (i - 32))));
            mbarrier_arrive(empty);
        }
    }
    if (i == 0 && p.M) mbarrier_wait(empty, (p.M - 1) % 2);
}

// One lane waits, and the others know it through their warp's barrier.
__global__ void told_by_the_warp(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 128, barrier), mbarrier_wait(barrier, 0);
    __syncwarp();
    if (i < 32) st_global(C + i, int(ld_shared(buffer + 4 * i)));
}

// Two warps read a buffer M times; whichever counts last fills it again.
__global__ void filled_by_the_last(const __grid_constant__ Problem p) {
    BULK
    if (i == 0) st_shared(barrier + 8, 0);
    make(barrier);
    if (i == 0) copy(buffer, A, 256, barrier);
    int sum = 0;
    for (int turn = 0; turn < p.M; turn++) {
        mbarrier_wait(barrier, turn % 2);
        sum += int(ld_shared(buffer + 4 * i));
        __syncwarp();
        if (count_shared(i % 32 == 0, barrier + 8, 1) == 1 && turn + 1 < p.M)
            copy(buffer, A + 64 * (turn + 1), 256, barrier);
    }
    st_global(C + i, sum);
}

// C = what threads counted: up to K, and from 0 again; those of odd numbers do not.
__global__ void counted(const __grid_constant__ Problem p) {
    BULK
    if (i == 0) st_shared(barrier, 0);
    __syncthreads();
    st_global(C + i, int(count_shared(i % 2 == 0, barrier, p.K)));
}

// All lanes of a warp ask for a copy, and one arrives and copies.
__global__ void copied_by_a_warp(const __grid_constant__ Problem p) {
    BULK
    make(barrier, 2);
    warp_bulk_copy(buffer + i / 32 * 128, A + i / 32 * 32, 128, barrier, evict_first());
    mbarrier_wait(barrier, 0);
    st_global(C + i, int(ld_shared(buffer + 4 * i)));
}

// --- wrong ---

__global__ void asked_by_some(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i < 16) warp_bulk_copy(buffer, A, 128, barrier, evict_first());  // here
    __syncthreads();
}

__global__ void asked_for_several(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i < 32) warp_bulk_copy(buffer, A + i / 16 * 32, 128, barrier, evict_first());  // here
}

__global__ void no_wait(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 256, barrier);
    __syncthreads();
    ld_shared(buffer + 4 * i);  // here
}

__global__ void wait_for_the_phase_before(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 256, barrier);
    mbarrier_wait(barrier, 1);
    ld_shared(buffer + 4 * i);  // here
}

__global__ void one_lane_waits(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 256, barrier), mbarrier_wait(barrier, 0);
    if (i < 32) ld_shared(buffer + 4 * i);  // here
}

// By a warp that does not know whether it is the last.
__global__ void filled_by_the_first(const __grid_constant__ Problem p) {
    BULK
    if (i == 0) st_shared(barrier + 8, 0);
    make(barrier);
    if (i == 0) copy(buffer, A, 256, barrier);
    mbarrier_wait(barrier, 0);
    ld_shared(buffer + 4 * i);  // here
    __syncwarp();
    if (i % 32 == 0 && count_shared(true, barrier + 8, 1) == 0) copy(buffer, A, 256, barrier);
}

__global__ void store_into_a_copy(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 256, barrier);
    __syncthreads();
    st_shared(buffer + 4 * i, 1);  // here
}

__global__ void copy_into_a_copy(const __grid_constant__ Problem p) {
    BULK
    make(barrier, 2);
    if (i == 0) copy(buffer, A, 256, barrier);
    __syncthreads();
    if (i == 32) mbarrier_arrive_expect(barrier, 16);
    if (i == 32) bulk_copy(buffer + 128, A, 16, barrier, evict_first());  // here
}

__global__ void refilled_too_early(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 128, barrier);
    mbarrier_wait(barrier, 0);
    if (i > 0) ld_shared(buffer + 4 * (i % 32));
    if (i == 40) mbarrier_arrive_expect(barrier, 128);
    if (i == 40) bulk_copy(buffer, A, 128, barrier, evict_first());  // here
}

__global__ void read_after_arriving(const __grid_constant__ Problem p) {
    BULK
    make(barrier, 32);
    st_shared(buffer + 4 * i, 1);
    if (i < 32) mbarrier_arrive(barrier);
    __syncwarp();
    if (i < 32) ld_shared(buffer + 4 * i);
    if (i >= 32) mbarrier_wait(barrier, 0);
    if (i >= 32) st_shared(buffer + 4 * (i - 32), 2);  // here
}

__global__ void bytes_that_nobody_copies(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) mbarrier_arrive_expect(barrier, 64);
    if (i == 0) bulk_copy(buffer, A, 32, barrier, evict_first());
    mbarrier_wait(barrier, 0);  // here
}

__global__ void bytes_that_nobody_expects(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) bulk_copy(buffer, A, 32, barrier, evict_first());
    if (i == 0) mbarrier_arrive(barrier);
    mbarrier_wait(barrier, 0);  // here
}

__global__ void too_few_arrivals(const __grid_constant__ Problem p) {
    BULK
    make(barrier, 3);
    if (i < 2) mbarrier_arrive(barrier);
    if (i >= 32) mbarrier_wait(barrier, 0);  // here
}

__global__ void too_many_arrivals(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) copy(buffer, A, 64, barrier);
    __syncwarp();
    if (i == 1) mbarrier_arrive(barrier);  // here
}

__global__ void no_mbarrier(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    mbarrier_wait(barrier + 8, 1);  // here
}

__global__ void no_arrivals(const __grid_constant__ Problem p) {
    BULK
    mbarrier_init(barrier, 0);  // here
}

__global__ void mbarrier_not_shared_yet(const __grid_constant__ Problem p) {
    BULK
    if (i == 0) mbarrier_init(barrier, 64), mbarrier_init_fence();
    mbarrier_arrive(barrier);  // here
}

__global__ void no_fence(const __grid_constant__ Problem p) {
    BULK
    if (i == 0) mbarrier_init(barrier, 1);
    if (i == 0) mbarrier_arrive_expect(barrier, 64);
    if (i == 0) bulk_copy(buffer, A, 64, barrier, evict_first());  // here
}

__global__ void odd_bytes(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) mbarrier_arrive_expect(barrier, 24);
    if (i == 0) bulk_copy(buffer, A, 24, barrier, evict_first());  // here
}

__global__ void misaligned_target(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) mbarrier_arrive_expect(barrier, 16);
    if (i == 0) bulk_copy(buffer + 8, A, 16, barrier, evict_first());  // here
}

__global__ void misaligned_source(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) mbarrier_arrive_expect(barrier, 16);
    if (i == 0) bulk_copy(buffer, A + 2, 16, barrier, evict_first());  // here
}

__global__ void misaligned_mbarrier(const __grid_constant__ Problem p) {
    BULK
    mbarrier_init(barrier + 4, 1);  // here
}

__global__ void beyond_shared_memory(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) mbarrier_arrive_expect(barrier, 64);
    if (i == 0) bulk_copy(barrier + 16384 - 32, A, 64, barrier, evict_first());  // here
}

__global__ void beyond_the_array(const __grid_constant__ Problem p) {
    BULK
    make(barrier);
    if (i == 0) mbarrier_arrive_expect(barrier, 64);
    if (i == 0) bulk_copy(buffer, A + 244, 64, barrier, evict_first());  // here
}

__global__ void left_under_way(const __grid_constant__ Problem p) {
    BULK
    if (i == 0) mbarrier_init(barrier, 1);  // here
    if (i == 0) mbarrier_init_fence();
    if (i == 0) copy(buffer, A, 64, barrier);
}

__global__ void before_the_grid_before(const __grid_constant__ Problem p) {
    BULK
    if (i >= 32) wait_for_previous_grid();
    st_global(C + i, 1);  // here
}

__global__ void loaded_by_ldg(const __grid_constant__ Problem p) {
    BULK
    wait_for_previous_grid();
    st_global(C + i, ld_global(C + i) + __ldg(A + i));
    st_global(C + i, __ldg(C + i));  // here
}

// A launch that may begin before the one before it has ended.
int launch_early(void (*kernel)(Problem), const Problem* p) {
    cudaLaunchAttribute early = {cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
    cudaLaunchConfig_t config = {dim3(1), dim3(64), 16384, nullptr, &early, 1};
    return cudaLaunchKernelEx(&config, kernel, *p);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

#define BULK_PROBE(kernel) PROBE(kernel, kernel, 64)
BULK_PROBE(refilled)
BULK_PROBE(producer_and_consumer)
BULK_PROBE(told_by_the_warp)
BULK_PROBE(filled_by_the_last)
BULK_PROBE(counted)
BULK_PROBE(copied_by_a_warp)
BULK_PROBE(asked_by_some)
BULK_PROBE(asked_for_several)
BULK_PROBE(no_wait)
BULK_PROBE(wait_for_the_phase_before)
BULK_PROBE(one_lane_waits)
BULK_PROBE(store_into_a_copy)
BULK_PROBE(copy_into_a_copy)
BULK_PROBE(refilled_too_early)
BULK_PROBE(filled_by_the_first)
BULK_PROBE(read_after_arriving)
BULK_PROBE(bytes_that_nobody_copies)
BULK_PROBE(bytes_that_nobody_expects)
BULK_PROBE(too_few_arrivals)
BULK_PROBE(too_many_arrivals)
BULK_PROBE(no_mbarrier)
BULK_PROBE(no_arrivals)
BULK_PROBE(mbarrier_not_shared_yet)
BULK_PROBE(no_fence)
BULK_PROBE(odd_bytes)
BULK_PROBE(misaligned_target)
BULK_PROBE(misaligned_source)
BULK_PROBE(misaligned_mbarrier)
BULK_PROBE(beyond_shared_memory)
BULK_PROBE(beyond_the_array)
BULK_PROBE(left_under_way)

extern "C" __attribute__((visibility("default"))) int probe_before_the_grid_before(const Problem* p) {
    return launch_early(before_the_grid_before, p);
}

extern "C" __attribute__((visibility("default"))) int probe_loaded_by_ldg(const Problem* p) {
    return launch_early(loaded_by_ldg, p);
}
