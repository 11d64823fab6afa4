// wgmma, for tests/test_emulator_wgmma.py: products of what lies in A[0], and kernels with one fault
// each, at the line marked `here`. A launch is one block of four warps.
#include "../../kernels/common/wgmma.cuh"
#include "probe.cuh"

namespace lscd {
namespace {

#define OPERANDS                                               \
    extern __shared__ __align__(1024) unsigned char memory[];  \
    Address shared = shared_address(memory);                   \
    const uint32_t* A = static_cast<const uint32_t*>(p.A[0]);  \
    float* C = static_cast<float*>(p.C);                       \
    int i = int(threadIdx.x);                                  \
    (void)A, (void)C, (void)i;

// Pair `at` of a matrix of 128-byte lines.
__device__ Address swizzled(Address matrix, int at) {
    Address place = matrix + at * 4;
    return place ^ (place >> 7 & 7) << 4;
}

// `pairs` of A, from the first one on, to shared memory; then they are for wgmma.
__device__ void fill(Address to, const uint32_t* from, int pairs, bool swizzles = true) {
    for (int at = threadIdx.x; at < pairs; at += 128)
        st_shared(swizzles ? swizzled(to, at) : to + at * 4, __ldg(from + at));
    async_proxy_fence();
    __syncthreads();
}

template <int COLS>
__device__ void store(float* C, const float (&d)[COLS / 8][4]) {
    for (int j = 0; j < COLS / 8; j++)
        for (int r = 0; r < 4; r++) st_global(C + (threadIdx.x * (COLS / 8) + j) * 4 + r, d[j][r]);
}

template <int COLS>
__device__ void set(float (&d)[COLS / 8][4], float value) {
    for (int j = 0; j < COLS / 8; j++)
        for (int r = 0; r < 4; r++) d[j][r] = value;
}

// A: a [64][64], then b [N][64]; C: 0.5 + a b. Four products of 16 k, the first as p.M says: with the
// sums before, or without.
template <class T, int COLS>
__global__ void dense(const __grid_constant__ Problem p) {
    OPERANDS
    Address b = shared + 64 * 128;
    fill(shared, A, 64 * 32), fill(b, A + 64 * 32, COLS * 32);
    float d[COLS / 8][4];
    set<COLS>(d, 0.5f);
    wgmma_fence();
    for (int k = 0; k < 64; k += 16)
        wgmma_m64k16<T, COLS>(d, k_major(shared) + (k * 2 >> 4), k_major(b) + (k * 2 >> 4), k || p.M);
    wgmma_commit();
    wgmma_wait<0>();
    store<COLS>(C, d);
}

// A: b [WIDTH / 8][64 k][8 n], then a[4] and metadata of each lane; C: 0.5 + a b's k 32 to 63.
template <class T, int COLS, int STEP>
__global__ void sparse(const __grid_constant__ Problem p) {
    OPERANDS
    constexpr int ROW_BYTES = 16, EIGHT_BYTES = 64 * ROW_BYTES;
    constexpr int WIDTH = COLS <= 32 ? 32 : 64, PAIRS = WIDTH / 8 * EIGHT_BYTES / 4;
    fill(shared, A, PAIRS, false);
    const uint32_t* mine = A + PAIRS + i * 5;
    uint32_t a[4], metadata = __ldg(mine + 4);
    for (int r = 0; r < 4; r++) a[r] = __ldg(mine + r);
    float d[COLS / 8][4];
    set<COLS>(d, 0.5f);
    wgmma_fence();
    uint64_t b = n_major(shared, EIGHT_BYTES) + (32 * ROW_BYTES >> 4);
    wgmma_sp_m64k32<T, COLS, STEP>(d, a, b, metadata, p.M);
    wgmma_commit();
    wgmma_wait<0>();
    store<COLS>(C, d);
}

// --- faulty ---

#define PRODUCT wgmma_m64k16<__half, 8>(d, k_major(shared), k_major(shared + 8192), 1)
#define STARTED           \
    fill(shared, A, 4096); \
    float d[1][4];        \
    set<8>(d, 0);         \
    wgmma_fence();        \
    PRODUCT;              \
    wgmma_commit();

__global__ void sums_without_a_wait(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    st_global(C + i, d[0][0]);  // here
    wgmma_wait<0>();
}

__global__ void sums_of_the_latest_group(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    wgmma_fence();
    PRODUCT;
    wgmma_commit();
    wgmma_wait<1>();
    st_global(C + i, d[0][0]);  // here
    wgmma_wait<0>();
}

__global__ void rounded_without_a_wait(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    __float2half_rn(d[0][3]);  // here
}

__global__ void sums_written_too_early(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    d[0][1] = 3;
    wgmma_wait<0>();  // here
}

__global__ void a_group_that_is_not_committed(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096);
    float d[1][4];
    set<8>(d, 0);
    wgmma_fence();
    PRODUCT;  // here
    wgmma_wait<0>();
}

__global__ void stored_while_it_is_read(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    __syncthreads();
    if (i == 0) st_shared(shared + 8192, 0);  // here
    wgmma_wait<0>();
}

// Each warp has waited, but not for the others, whose parts of A have other owners.
__global__ void stored_while_others_read(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    wgmma_wait<0>();
    if (i == 32) st_shared(shared, 0);  // here
}

__global__ void registers_written_too_early(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096);
    float d[4][4];
    set<32>(d, 0);
    uint32_t a[4] = {1, 2, 3, 4}, metadata = 0x44444444;
    wgmma_fence();
    wgmma_sp_m64k32<__half, 32, 0>(d, a, n_major(shared, 1024), metadata, 0);
    wgmma_commit();
    a[2] = 5;
    wgmma_wait<0>();  // here
}

__global__ void no_fence_of_the_proxies(const __grid_constant__ Problem p) {
    OPERANDS
    for (int at = i; at < 4096; at += 128) st_shared(shared + 4 * at, 0);
    __syncthreads();
    float d[1][4];
    wgmma_fence();
    PRODUCT;  // here
}

// Stored once more after the fence.
__global__ void stored_after_the_fence(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096);
    if (i == 70) st_shared(shared + 8192, 0);
    __syncthreads();
    float d[1][4];
    wgmma_fence();
    PRODUCT;  // here
}

__global__ void fenced_behind_the_barrier(const __grid_constant__ Problem p) {
    OPERANDS
    for (int at = i; at < 4096; at += 128) st_shared(shared + 4 * at, 0);
    __syncthreads();
    async_proxy_fence();
    float d[1][4];
    wgmma_fence();
    PRODUCT;  // here
}

__global__ void copied_without_a_fence(const __grid_constant__ Problem p) {
    OPERANDS
    for (int at = i; at < 1024; at += 128)
        cp_async_16(Shared<uint32_t>(memory), 4 * at, A + 4 * at);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    float d[1][4];
    wgmma_fence();
    PRODUCT;  // here
}

__global__ void no_barrier(const __grid_constant__ Problem p) {
    OPERANDS
    for (int at = i; at < 4096; at += 128) st_shared(shared + 4 * at, 0);
    async_proxy_fence();
    float d[1][4];
    wgmma_fence();
    PRODUCT;  // here
}

__global__ void bulk_copy_under_way(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096 - 2);
    Address barrier = shared + 16384 - 8;
    if (i == 0) {
        mbarrier_init(barrier, 1), mbarrier_init_fence();
        mbarrier_arrive_expect(barrier, 1024);
        bulk_copy(shared + 8192, A, 1024, barrier, evict_first());
        mbarrier_wait(barrier, 0);
    }
    __syncwarp();
    float d[1][4];
    wgmma_fence();
    PRODUCT;  // here
}

__global__ void no_wgmma_fence(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    wgmma_wait<0>();
    d[0][0] = 3;
    PRODUCT;  // here
}

__global__ void beyond_shared_memory(const __grid_constant__ Problem p) {
    OPERANDS
    float d[1][4];
    wgmma_fence();
    wgmma_m64k16<__half, 8>(d, k_major(shared + 8192), k_major(shared + 16384), 1);  // here
}

__global__ void inside_of_a_swizzle(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096);
    float d[1][4];
    wgmma_fence();
    wgmma_m64k16<__half, 8>(d, k_major(shared), k_major(shared + 8192 + 128), 1);  // here
}

__global__ void different_operands(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096);
    float d[1][4];
    wgmma_fence();
    wgmma_m64k16<__half, 8>(d, k_major(shared), k_major(shared + i / 32 * 1024), 1);  // here
}

__global__ void three_warps(const __grid_constant__ Problem p) {
    OPERANDS
    fill(shared, A, 4096);
    float d[1][4];
    wgmma_fence();
    if (i < 96) PRODUCT;  // here
}

// Its results would be right, but PTX wants the wait from all four warps.
__global__ void a_wait_of_three_warps(const __grid_constant__ Problem p) {
    OPERANDS
    STARTED
    if (i < 96) wgmma_wait<0>();  // here
}

}  // namespace
}  // namespace lscd

using namespace lscd;

#define DENSE(COLS)                                             \
    PROBE(dense_float16_##COLS, (dense<__half, COLS>), 128)     \
    PROBE(dense_bfloat16_##COLS, (dense<__nv_bfloat16, COLS>), 128)
DENSE(8)
DENSE(16)
DENSE(32)
DENSE(64)
#define SPARSE(COLS)                                                        \
    PROBE(sparse_float16_##COLS##_0, (sparse<__half, COLS, 0>), 128)        \
    PROBE(sparse_float16_##COLS##_1, (sparse<__half, COLS, 1>), 128)        \
    PROBE(sparse_bfloat16_##COLS##_0, (sparse<__nv_bfloat16, COLS, 0>), 128) \
    PROBE(sparse_bfloat16_##COLS##_1, (sparse<__nv_bfloat16, COLS, 1>), 128)
SPARSE(24)
SPARSE(32)
SPARSE(40)
SPARSE(64)
PROBE(sums_without_a_wait, sums_without_a_wait, 128)
PROBE(sums_of_the_latest_group, sums_of_the_latest_group, 128)
PROBE(rounded_without_a_wait, rounded_without_a_wait, 128)
PROBE(sums_written_too_early, sums_written_too_early, 128)
PROBE(a_group_that_is_not_committed, a_group_that_is_not_committed, 128)
PROBE(stored_while_it_is_read, stored_while_it_is_read, 128)
PROBE(stored_while_others_read, stored_while_others_read, 128)
PROBE(registers_written_too_early, registers_written_too_early, 128)
PROBE(no_fence_of_the_proxies, no_fence_of_the_proxies, 128)
PROBE(stored_after_the_fence, stored_after_the_fence, 128)
PROBE(fenced_behind_the_barrier, fenced_behind_the_barrier, 128)
PROBE(copied_without_a_fence, copied_without_a_fence, 128)
PROBE(no_barrier, no_barrier, 128)
PROBE(bulk_copy_under_way, bulk_copy_under_way, 128)
PROBE(no_wgmma_fence, no_wgmma_fence, 128)
PROBE(beyond_shared_memory, beyond_shared_memory, 128)
PROBE(inside_of_a_swizzle, inside_of_a_swizzle, 128)
PROBE(different_operands, different_operands, 128)
PROBE(three_warps, three_warps, 128)
PROBE(a_wait_of_three_warps, a_wait_of_three_warps, 128)
