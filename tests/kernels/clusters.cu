// Clusters of two blocks, for tests/test_emulator_clusters.py: kernels that are right, and kernels with one
// fault each, at the line marked `here`. A launch has two rows of M blocks, of 64 threads.
#include "../../kernels/common/cluster.cuh"
#include "../../kernels/common/grid.cuh"
#include "../../kernels/common/wgmma.cuh"
#include "probe.cuh"

namespace lscd {
namespace {

// Each block has two mbarriers, a buffer that its 64 threads fill, and one that the other block copies to.
struct Pair {
    Address full, free, out, in;
    uint32_t rank = rank_in_cluster(), other = rank ^ 1;
    int i = int(threadIdx.x), block = int(blockIdx.y * gridDim.x + blockIdx.x);

    __device__ explicit Pair(void* memory)
        : full(shared_address(memory)), free(full + 8), out(full + 1024), in(full + 2048) {
        if (i == 0) mbarrier_init(full, 1), mbarrier_init(free, 64), mbarrier_init_fence();
        cluster_barrier();
    }
    __device__ void fill(int value) const {
        st_shared(out + 4 * i, uint32_t(value));
        async_proxy_fence();
        __syncthreads();
    }
    __device__ void expect() const { mbarrier_arrive_expect(full, 256); }
};

// Macros, for faults are told with the line.
#define SEND bulk_copy_at(at_rank(pair.in, pair.other), pair.out, 256, at_rank(pair.full, pair.other))
#define RECEIVED int(ld_shared(pair.in + 4 * i))

#define PAIR                                                  \
    extern __shared__ __align__(1024) unsigned char memory[]; \
    Pair pair(memory);                                        \
    int* C = static_cast<int*>(p.C) + pair.block * 64;        \
    const uint32_t rank = pair.rank;                          \
    const int i = pair.i;                                     \
    (void)C, (void)rank, (void)i;

// --- right ---

// C = the sum of what the other block has sent, K times.
__global__ void exchanged(const __grid_constant__ Problem p) {
    PAIR
    int sum = 0;
    for (int turn = 0; turn < p.K; turn++) {
        if (turn) mbarrier_wait(pair.free, (turn - 1) % 2);
        pair.fill(1000 * turn + 100 * pair.block + i);
        if (i == 0) pair.expect(), SEND;
        mbarrier_wait(pair.full, turn % 2);
        sum += RECEIVED;
        mbarrier_arrive_at(at_rank(pair.free, pair.other));
    }
    st_global(C + i, sum);
    cluster_barrier();
}

__global__ void numbered(const __grid_constant__ Problem p) {
    PAIR
    keep_registers<24>(), take_registers<240>();
    st_global(C + i, int(1000 * rank + 100 * blockIdx.x + 10 * blockIdx.y) + (i + 1 == int(blockDim.x)));
}

// The threads of one block meet, and hand over to each other, before any of the other has come so far.
__global__ void one_meets_alone(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 0) {
        for (int turn = 0; turn < 3; turn++) {
            st_shared(pair.out + 4 * i, 10 * i + turn);
            __syncthreads();
            st_global(C + i, int(ld_shared(pair.out + 4 * (63 - i))));
            __syncthreads();
        }
        mbarrier_arrive_at(at_rank(pair.free, 1));
    } else {
        mbarrier_wait(pair.free, 0);
        __syncthreads();
    }
    cluster_barrier();
}

// Either block has its own array behind the pointer.
__global__ void by_pointer(const __grid_constant__ Problem p) {
    PAIR
    Shared<int> own(memory + 4096), four = own + 4;
    own.store(i, pair.block);
    __syncthreads();
    st_global(C + i, four.load(i % 60));
    if (i == 0) st_shared(own.address(0), 7), st_global(C, own.load(0));
}

// C [64][8] of each block, as its threads have it: a [64][64] times b [8][64], which lies behind.
__global__ void products(const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Address a = shared_address(memory), b = a + 64 * 128;
    int i = int(threadIdx.x), block = int(blockIdx.x);
    auto from = static_cast<const uint32_t*>(p.A[0]) + block * (72 * 32);
    for (int at = i; at < 72 * 32; at += 128) {
        Address place = a + at * 4;
        st_shared(place ^ (place >> 7 & 7) << 4, __ldg(from + at));
    }
    async_proxy_fence();
    __syncthreads();
    float d[1][4] = {};
    wgmma_fence();
    for (int k = 0; k < 64; k += 16)
        wgmma_m64k16<__half, 8>(d, k_major(a) + (k * 2 >> 4), k_major(b) + (k * 2 >> 4), k);
    wgmma_commit();
    wgmma_wait<0>();
    for (int r = 0; r < 4; r++)
        st_global(static_cast<float*>(p.C) + (block * 128 + i) * 4 + r, d[0][r]);
}

// --- wrong ---

__global__ void no_proxy_fence(const __grid_constant__ Problem p) {
    PAIR
    st_shared(pair.out + 4 * i, 1);
    __syncthreads();
    if (rank == 1 && i == 0) SEND;  // here
}

__global__ void no_wait(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    if (rank == 0 && i == 0) pair.expect();
    if (rank == 1 && i == 0) SEND;
    cluster_barrier();
    if (rank == 0) RECEIVED;  // here
}

// Nobody says that the first copy has been read, nor that it is over.
__global__ void sent_again(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    if (rank == 0 && i == 0) pair.expect();
    if (rank == 0) mbarrier_wait(pair.full, 0), RECEIVED;
    if (rank == 1 && i == 0) SEND;
    __syncthreads();
    if (rank == 1 && i == 32) SEND;  // here
}

// One thread has read it, and says so.
__global__ void freed_too_early(const __grid_constant__ Problem p) {
    PAIR
    Address one = pair.full + 16;
    if (i == 0) mbarrier_init(one, 1), mbarrier_init_fence();
    pair.fill(1);
    cluster_barrier();
    if (rank == 0) {
        if (i == 0) pair.expect();
        mbarrier_wait(pair.full, 0);
        RECEIVED;
        if (i == 0) mbarrier_arrive_at(at_rank(one, 1));
    } else if (i == 0) {
        SEND;
        mbarrier_wait(one, 0);
        SEND;  // here
    }
}

__global__ void source_overwritten(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    if (i == 0) pair.expect(), SEND;
    if (rank == 1) mbarrier_wait(pair.full, 0);
    if (rank == 1 && i == 0) st_shared(pair.out, 2);  // here
}

__global__ void beyond_the_own_part(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 1) ld_shared(pair.full + 16384);  // here
}

__global__ void in_the_next_part(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 0) st_shared(pair.out + (1 << 18), 1);  // here
}

__global__ void in_the_next_part_by_pointer(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 0) Shared<int>(memory).store(1 << 16, 1);  // here
}

__global__ void in_the_part_before(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 1) Shared<int>(memory).load(-(1 << 16) + 256);  // here
}

__global__ void beyond_the_other_part(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    Address there = at_rank(pair.full, 1);
    if (rank == 0 && i == 0) bulk_copy_at(there + 16384 - 128, pair.out, 256, there);  // here
}

__global__ void no_such_rank(const __grid_constant__ Problem p) {
    PAIR
    at_rank(pair.full, 2);  // here
}

__global__ void copied_from_the_other(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    cluster_barrier();
    if (i == 0) bulk_copy_at(pair.in, at_rank(pair.out, 1), 256, pair.full);  // here
}

__global__ void counted_elsewhere(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    if (i == 0) bulk_copy_at(at_rank(pair.in, 1), pair.out, 256, pair.full);  // here
}

__global__ void odd_bytes(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    if (i == 0) bulk_copy_at(at_rank(pair.in, 1), pair.out, 24, at_rank(pair.full, 1));  // here
}

__global__ void not_made_yet(const __grid_constant__ Problem p) {
    PAIR
    Address late = pair.full + 16;
    if (rank == 1 && i == 0) mbarrier_init(late, 64), mbarrier_init_fence();
    __syncthreads();
    if (rank == 0) mbarrier_arrive_at(at_rank(late, 1));  // here
}

__global__ void ends_before_an_arrival(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 0) mbarrier_arrive_at(at_rank(pair.free, 1));  // here
}

__global__ void ends_before_its_copy(const __grid_constant__ Problem p) {
    PAIR
    pair.fill(1);
    if (rank == 1 && i == 0) pair.expect();
    if (rank == 0 && i == 0) SEND;  // here
    if (rank == 1) mbarrier_wait(pair.full, 0);
}

__global__ void copy_that_nobody_awaits(const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Address full = shared_address(memory);
    if (threadIdx.x == 0) mbarrier_init(full, 1), mbarrier_init_fence();  // here
    st_shared(full + 1024 + 4 * threadIdx.x, 1);
    async_proxy_fence();
    cluster_barrier();
    if (rank_in_cluster() == 0 && threadIdx.x == 0)
        bulk_copy_at(at_rank(full + 2048, 1), full + 1024, 256, at_rank(full, 1));
    cluster_barrier();
}

__global__ void too_few_arrive(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 0 && i) mbarrier_arrive_at(at_rank(pair.free, 1));
    if (rank == 1) mbarrier_wait(pair.free, 0);  // here
}

__global__ void some_miss_the_barrier(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 1 && i >= 32) return;
    cluster_barrier();  // here
}

__global__ void stores_too_early(const __grid_constant__ Problem p) {
    PAIR
    if (rank == 1) st_global(C + i, 1);  // here
}

int launch(void (*kernel)(Problem), const Problem* p, bool early, int cluster) {
    return launch_grid(kernel, *p, dim3(p->M, 2), 64, 16384, nullptr, {early, cluster});
}

}  // namespace
}  // namespace lscd

using namespace lscd;

#define EXPORT extern "C" __attribute__((visibility("default")))
#define CLUSTERS(kernel) \
    EXPORT int probe_##kernel(const Problem* p) { return launch(kernel, p, false, 2); }
CLUSTERS(exchanged)
CLUSTERS(numbered)
CLUSTERS(one_meets_alone)
CLUSTERS(by_pointer)
CLUSTERS(no_proxy_fence)
CLUSTERS(no_wait)
CLUSTERS(sent_again)
CLUSTERS(freed_too_early)
CLUSTERS(source_overwritten)
CLUSTERS(beyond_the_own_part)
CLUSTERS(in_the_next_part)
CLUSTERS(in_the_next_part_by_pointer)
CLUSTERS(in_the_part_before)
CLUSTERS(beyond_the_other_part)
CLUSTERS(no_such_rank)
CLUSTERS(copied_from_the_other)
CLUSTERS(counted_elsewhere)
CLUSTERS(odd_bytes)
CLUSTERS(not_made_yet)
CLUSTERS(ends_before_an_arrival)
CLUSTERS(ends_before_its_copy)
CLUSTERS(copy_that_nobody_awaits)
CLUSTERS(too_few_arrive)
CLUSTERS(some_miss_the_barrier)

EXPORT int probe_products(const Problem* p) {
    return launch_grid(products, *p, dim3(p->M), 128, 16384, nullptr, {false, 2});
}
EXPORT int probe_stores_too_early(const Problem* p) { return launch(stores_too_early, p, true, 2); }
EXPORT int probe_clusters_of(const Problem* p) { return launch(numbered, p, false, p->K); }
