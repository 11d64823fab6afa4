// Kernels whose costs can be worked out by hand, for tests/test_emulator_counts.py. A launch is one
// warp; M and K say what lanes do, C receives what they find.
#include "probe.cuh"

namespace lscd {
namespace {

__device__ int lane() { return threadIdx.x % 32; }

// Lane i stores T number (i / M) * K, then loads it.
template <class T>
__global__ void shared_stride(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<T> shared(memory);
    if (lane() % p.M == 0) shared.store(lane() / p.M * p.K, T());
    __syncwarp();
    shared.load(lane() / p.M * p.K);
}

// Half the lanes store 16 bits in one half of each word, the others in the other half.
__global__ void halves_of_words(const __grid_constant__ Problem) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint16_t>(memory).store(lane(), uint16_t(lane()));
}

// The rows of four matrices, M bytes from one to the next.
__global__ void ldmatrix_rows(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint4> chunks(memory);
    for (int i = lane(); i < 32 * p.M / 16; i += 32) chunks.store(i, uint4{1, 2, 3, 4});
    __syncwarp();
    uint32_t r[4];
    ldmatrix_x4(r, chunks, lane() * p.M / 16);
}

// Each lane reads float number i * M of A[0] and writes float number i * K of C.
__global__ void global_stride(const __grid_constant__ Problem p) {
    float value = __ldg(static_cast<const float*>(p.A[0]) + lane() * p.M);
    st_global(static_cast<float*>(p.C) + lane() * p.K, value);
}

// Lanes from M on take part K times, in a loop.
__global__ void some_lanes(const __grid_constant__ Problem p) {
    for (int i = 0; i < p.K; i++)
        if (lane() >= p.M) __popc(unsigned(i));
}

// C = each lane's number after a shuffle of every kind, and two votes.
__global__ void shuffles(const __grid_constant__ Problem p) {
    int* C = static_cast<int*>(p.C) + lane();
    st_global(C, __shfl_sync(~0u, lane(), 5));
    st_global(C + 32, __shfl_up_sync(~0u, lane(), 3));
    st_global(C + 64, __shfl_down_sync(~0u, lane(), 3));
    st_global(C + 96, __shfl_xor_sync(~0u, lane(), 1));
    st_global(C + 128, int(__ballot_sync(~0u, lane() % 4 == 0)));
    if (lane() < 16) st_global(C + 160, __shfl_sync(0xffff, lane(), 15));
}

// Two warps add up through shared memory: C[i] = i + (i + 32) % 64.
__global__ void exchange(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<int> shared(memory);
    int i = int(threadIdx.x);
    shared.store(i, i);
    __syncthreads();
    st_global(static_cast<int*>(p.C) + i, i + shared.load((i + 32) % 64));
}

// C[0] = the least of the lanes' numbers, from 40 down.
__global__ void least(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<int> shared(memory);
    if (threadIdx.x == 0) shared.store(0, 1000);
    __syncthreads();
    shared.store_min(0, 40 - int(threadIdx.x) / 2);
    __syncthreads();
    if (threadIdx.x == 0) st_global(static_cast<int*>(p.C), shared.load(0));
}

}  // namespace
}  // namespace lscd

using namespace lscd;

PROBE(floats, shared_stride<float>, 32)
PROBE(doubles, shared_stride<uint2>, 32)
PROBE(vectors, shared_stride<uint4>, 32)
PROBE(halves_of_words, halves_of_words, 32)
PROBE(ldmatrix_rows, ldmatrix_rows, 32)
PROBE(global_stride, global_stride, 32)
PROBE(some_lanes, some_lanes, 32)
PROBE(shuffles, shuffles, 32)
PROBE(exchange, exchange, 64)
PROBE(more_threads_than_a_block_has, exchange, 1056)
PROBE(least, least, 64)
