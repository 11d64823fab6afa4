// The Hopper kernel's matrix instructions and loads by address, one each, for
// tests/test_emulator_matrices.py: a warp whose lanes bring what lies in A[0] and write what they get.
#include "probe.cuh"

namespace lscd {
namespace {

#define OPERANDS                                           \
    const uint32_t* A = static_cast<const uint32_t*>(p.A[0]); \
    uint32_t* C = static_cast<uint32_t*>(p.C);             \
    int lane = int(threadIdx.x);

// A: a0 a1 b c[4] of each lane; C: d[4].
__global__ void bmma(const __grid_constant__ Problem p) {
    OPERANDS
    uint32_t in[7], d[4];
    for (int i = 0; i < 7; i++) in[i] = __ldg(A + lane * 7 + i);
    uint32_t c[4] = {in[3], in[4], in[5], in[6]};
    bmma_m16n8k128(d, in[0], in[1], in[2], c);
    for (int i = 0; i < 4; i++) st_global(C + lane * 4 + i, d[i]);
}

// A: a[4] b[4] metadata of each lane; C: d[4], as floats.
template <class T, int STEP>
__global__ void mma_sp(const __grid_constant__ Problem p) {
    OPERANDS
    uint32_t a[4], b[4];
    for (int i = 0; i < 4; i++) a[i] = __ldg(A + lane * 9 + i), b[i] = __ldg(A + lane * 9 + 4 + i);
    float d[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    mma_sp_m16n8k32<T, STEP>(d, a, b, __ldg(A + lane * 9 + 8));
    for (int i = 0; i < 4; i++) st_global(reinterpret_cast<float*>(C) + lane * 4 + i, d[i]);
}

// A: four words of each lane go to shared memory, M bytes from lane to lane; C: what ldmatrix makes.
__global__ void ldmatrix_trans(const __grid_constant__ Problem p) {
    OPERANDS
    extern __shared__ __align__(128) unsigned char memory[];
    Address row = shared_address(memory) + lane * p.M;
    for (int i = 0; i < 4; i++) st_shared(row + 4 * i, __ldg(A + lane * 4 + i));
    __syncwarp();
    uint32_t r[4];
    ldmatrix_x4_trans(r, row);
    for (int i = 0; i < 4; i++) st_global(C + lane * 4 + i, r[i]);
}

// The other way round: registers to shared memory, and its rows to C.
__global__ void stmatrix_trans(const __grid_constant__ Problem p) {
    OPERANDS
    extern __shared__ __align__(128) unsigned char memory[];
    Address row = shared_address(memory) + lane * p.M;
    const uint32_t* mine = A + lane * 4;
    stmatrix_x4_trans(row, uint4{__ldg(mine), __ldg(mine + 1), __ldg(mine + 2), __ldg(mine + 3)});
    __syncwarp();
    for (int i = 0; i < 4; i++) st_global(C + lane * 4 + i, ld_shared(row + 4 * i));
}

// Words i of shared memory are i; each lane loads M bytes at its K-th multiple, in every way.
__global__ void loads(const __grid_constant__ Problem p) {
    OPERANDS
    extern __shared__ __align__(128) unsigned char memory[];
    Address start = shared_address(memory);
    for (int i = lane; i < 1024; i += 32) st_shared(start + 4 * i, uint32_t(i));
    __syncwarp();
    Address at = start + lane * p.K;
    uint32_t found = 0;
    if (p.M == 2) found = ld_shared_u16(at);
    if (p.M == 3) found = ld_shared_halves(at);
    if (p.M == 4) found = ld_shared(at);
    if (p.M == 8) found = ld_shared_v2(at).y;
    if (p.M == 16) found = ld_shared_v4(at).w;
    st_global(C + lane, found + __ldg(A) * 0);
}

__global__ void mma_sp_of_some(const __grid_constant__ Problem p) {
    float d[4] = {};
    uint32_t a[4] = {}, b[4] = {};
    if (int(threadIdx.x) < p.M) mma_sp_m16n8k32<__half, 0>(d, a, b, 0);
}

__global__ void bmma_of_some(const __grid_constant__ Problem p) {
    uint32_t d[4], c[4] = {};
    if (int(threadIdx.x) < p.M) bmma_m16n8k128(d, 0, 0, 0, c);
}

__global__ void stmatrix_of_some(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Address row = shared_address(memory) + 16 * threadIdx.x;
    if (int(threadIdx.x) < p.M) stmatrix_x4_trans(row, uint4{});
}

}  // namespace
}  // namespace lscd

using namespace lscd;

PROBE(bmma, bmma, 32)
PROBE(mma_sp_float16_0, (mma_sp<__half, 0>), 32)
PROBE(mma_sp_float16_1, (mma_sp<__half, 1>), 32)
PROBE(mma_sp_bfloat16_0, (mma_sp<__nv_bfloat16, 0>), 32)
PROBE(mma_sp_bfloat16_1, (mma_sp<__nv_bfloat16, 1>), 32)
PROBE(ldmatrix_trans, ldmatrix_trans, 32)
PROBE(stmatrix_trans, stmatrix_trans, 32)
PROBE(loads, loads, 32)
PROBE(mma_sp_of_some, mma_sp_of_some, 32)
PROBE(bmma_of_some, bmma_of_some, 32)
PROBE(stmatrix_of_some, stmatrix_of_some, 32)
