// The PTX that kernels use, each instruction under its own name, and the one pointer type through
// which they touch shared memory. Beside wgmma.cuh, cluster.cuh and tensor_map.cuh no other GPU source
// contains inline assembly: that keeps kernels readable, and lets the emulator run the same sources with
// functions of these names.
//
// Kernels that let the tensor core compute where a value lies use addresses instead of pointers.
// Bulk copies, mbarriers and grids that begin early are for sm_90; on others the latter do nothing.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace lscd {
using Address = uint32_t;  // of a byte of shared memory
// What a flag of global memory is when it is set. Whatever memory has been before, it has these 64 bits by a chance of
// 2^-64: so nobody clears flags, if every grid leaves none set. Whoever waits for one takes it away.
constexpr uint64_t FLAG_IS_SET = 0x4f9710409983dcba;
}  // namespace lscd

#ifdef LSCD_EMULATOR
#include "../emulator/instructions/ptx.h"
#else

namespace lscd {

// An array of T in shared memory.
template <class T>
class Shared {
    T* data;

  public:
    __device__ explicit Shared(void* memory) : data(static_cast<T*>(memory)) {}
    __device__ T load(int i) const { return data[i]; }
    __device__ void store(int i, T value) const { data[i] = value; }
    // data[i] = min(data[i], value), whatever the order of the threads.
    __device__ void store_min(int i, T value) const { atomicMin(data + i, value); }
    __device__ Shared operator+(int i) const { return Shared(data + i); }
    template <class U>
    __device__ Shared<U> as() const {
        return Shared<U>(static_cast<void*>(data));
    }
    __device__ uint32_t address(int i) const {
        return static_cast<uint32_t>(__cvta_generic_to_shared(data + i));
    }
};

// Loads and stores of global memory that are neither __ldg nor asynchronous.
template <class T>
__device__ inline T ld_global(const T* from) {
    return *from;
}
template <class T>
__device__ inline void st_global(T* to, T value) {
    *to = value;
}

// A flag of global memory: who sees it set sees all that its setter, and lanes of its warp that it met before,
// had written. A block may wait for those before it, which have begun: GPUs begin blocks in the order of their
// numbers, though nothing promises it.
__device__ inline void set_flag(uint64_t* flag) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(flag), "l"(FLAG_IS_SET) : "memory");
}
__device__ inline void wait_for_flag(const uint64_t* flag) {
    uint64_t value;
    do asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
    while (value != FLAG_IS_SET);
}
// By one lane, when all that wait have seen it: who comes later waits for ever.
__device__ inline void unset_flag(uint64_t* flag) { st_global(flag, uint64_t(0)); }

// cp.async of 16 bytes, of which `valid` (0 to 16) are read and the others are zeros. L2 only.
template <class T>
__device__ inline void cp_async_16(Shared<T> to, int i, const void* from, int valid = 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.address(i)), "l"(from),
                 "r"(valid)
                 : "memory");
}

__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most `pending` of this thread's latest groups are still under way.
template <int pending>
__device__ inline void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane 8i+r gives the address of row r of matrix i.
template <class T>
__device__ inline void ldmatrix_x4(uint32_t (&r)[4], Shared<T> from, int i) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from.address(i))
                 : "memory");
}

// Two 8x8 matrices; lanes 0-15 give the addresses.
template <class T>
__device__ inline void ldmatrix_x2(uint32_t (&r)[2], Shared<T> from, int i) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(from.address(i))
                 : "memory");
}

// d[16x8] += a[16x16] * b[16x8], fp32 sums.
template <class T>
__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

template <>
__device__ inline void mma_m16n8k16<__half>(float (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ inline void mma_m16n8k16<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// --- shared memory by address; each address a multiple of the access -----------------------------

__device__ inline Address shared_address(const void* memory) {
    return static_cast<Address>(__cvta_generic_to_shared(memory));
}

__device__ inline void st_shared(Address to, uint32_t value) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

__device__ inline void st_shared_u16(Address to, uint32_t value) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(uint16_t(value)) : "memory");
}

__device__ inline void st_shared_v2(Address to, uint2 v) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(v.x), "r"(v.y) : "memory");
}

__device__ inline void st_shared_v4(Address to, const uint4& v) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

__device__ inline uint32_t ld_shared_u8(Address from) {
    uint32_t value;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(from));
    return value;
}

__device__ inline uint32_t ld_shared_u16(Address from) {
    uint32_t value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(value) : "r"(from));
    return value;
}

__device__ inline int32_t ld_shared_s16(Address from) {
    int32_t value;
    asm volatile("ld.shared.s16 %0, [%1];" : "=r"(value) : "r"(from));
    return value;
}

__device__ inline uint32_t ld_shared(Address from) {
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(from));
    return value;
}

__device__ inline uint2 ld_shared_v2(Address from) {
    uint2 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from));
    return v;
}

__device__ inline uint4 ld_shared_v4(Address from) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from));
    return v;
}

// Two neighbouring halves, in two loads: the address is a multiple of 2.
__device__ inline uint32_t ld_shared_halves(Address from) {
    uint32_t pair;
    asm volatile("{ .reg .b16 low, high; ld.shared.b16 low, [%1]; ld.shared.b16 high, [%1+2];"
                 " mov.b32 %0, {low, high}; }"
                 : "=r"(pair)
                 : "r"(from));
    return pair;
}

// The word at an address, or 0 where `condition` is 0: by a predicate.
__device__ inline uint32_t ld_shared_if(uint32_t condition, Address from) {
    uint32_t value = 0;
    asm volatile("{ .reg .pred loads; setp.ne.u32 loads, %2, 0; @loads ld.shared.b32 %0, [%1]; }"
                 : "+r"(value)
                 : "r"(from), "r"(condition));
    return value;
}

// A step of sums over the lanes before: the value of the lane `by` below is added, where there is one.
__device__ inline uint32_t add_below(uint32_t value, int by) {
    asm volatile("{ .reg .pred p; .reg .b32 below; shfl.sync.up.b32 below|p, %0, %1, 0, 0xffffffff;"
                 " @p add.u32 %0, %0, below; }"
                 : "+r"(value)
                 : "r"(by));
    return value;
}

// A bit of a word, left where it is; an address, and 1 << SHIFT more where that bit is set. An instruction
// each: the compiler would shift the word first, which is one more.
__device__ inline uint32_t one_bit(uint32_t word, int bit) {
    uint32_t own;
    asm("and.b32 %0, %1, %2;" : "=r"(own) : "r"(word), "r"(1u << bit));
    return own;
}
template <int SHIFT>
__device__ inline Address add_bit(Address at, uint32_t own, int bit) {
    if (bit > SHIFT) return at + (own >> (bit - SHIFT));
    asm("mad.lo.u32 %0, %1, %2, %0;" : "+r"(at) : "r"(own), "r"(1u << (SHIFT - bit)));
    return at;
}

// Adds 1 to a counter, whose last value is followed by 0, and says what it was; 0 where it `counts` not.
// By a predicate: a branch costs a warp 30 clocks. Relaxed: what a thread has loaded before is in its
// registers, so that whoever counts later may have that memory overwritten. Nobody's stores can be relied
// on; acq_rel would wait for all that the thread has under way (MEMBAR).
__device__ inline uint32_t count_shared(bool counts, Address at, uint32_t last) {
    uint32_t before = 0;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0;"
                 " @p atom.relaxed.cta.shared::cta.inc.u32 %0, [%1], %2; }"
                 : "+r"(before)
                 : "r"(at), "r"(last), "r"(uint32_t(counts))
                 : "memory");
    return before;
}

// Four 8x8 matrices, each transposed: a lane receives two elements of a column.
__device__ inline void ldmatrix_x4_trans(uint32_t (&r)[4], Address from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

__device__ inline void stmatrix_x4_trans(Address to, const uint4& r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(r.x), "r"(r.y), "r"(r.z), "r"(r.w)
                 : "memory");
}

// --- mbarriers, 8 bytes each, and the bulk copies that they count ---------------------------------

// Each phase of the barrier takes so many arrivals.
__device__ inline void mbarrier_init(Address barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Bulk copies may use the barriers that this thread has made.
__device__ inline void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(Address barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and makes the phase wait for so many bytes of bulk copies.
__device__ inline void mbarrier_arrive_expect(Address barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// Until the phase of that parity (0, 1, 0 ...) is over.
__device__ inline void mbarrier_wait(Address barrier, uint32_t parity) {
    asm volatile(
        "{ .reg .pred over; AGAIN_%=: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;"
        " @!over bra AGAIN_%=; }" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Whether it is over: who asks some time before it matters need not wait for the answer.
__device__ inline bool mbarrier_is_over(Address barrier, uint32_t parity) {
    uint32_t over;
    asm volatile(
        "{ .reg .pred over; mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;"
        " selp.b32 %0, 1, 0, over; }"
        : "=r"(over)
        : "r"(barrier), "r"(parity)
        : "memory");
    return over;
}

// What the L2 does with lines that are read once: they leave it first; or that must stay until they are read: last.
// PTX does not promise these numbers; ptxas makes createpolicy.fractional.L2 with fraction 1 into them for
// sm_90a, anew for each copy or store, and CUTLASS relies on them (TMA::CacheHintSm90).
__device__ inline uint64_t evict_first() { return 0x12f0000000000000u; }
__device__ inline uint64_t evict_last() { return 0x14f0000000000000u; }

// As st_global above, with such a policy.
__device__ inline void st_global(float4* to, const float4& value, uint64_t policy) {
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "f"(value.x),
                 "f"(value.y), "f"(value.z), "f"(value.w), "l"(policy)
                 : "memory");
}

// `bytes` of global memory, which the barrier counts; bytes and both addresses are multiples of 16.
__device__ inline void bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                                 uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}

// A copy for which its barrier's phase waits, and which is its arrival.
__device__ inline void lane_bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                                      uint64_t policy) {
    mbarrier_arrive_expect(barrier, bytes);
    bulk_copy(to, from, bytes, barrier, policy);
}

// The same of a warp: all 32 lanes ask, one that is elected does it. In one piece, without a branch. And of
// `lane == 0` the compiler does not know that it is alone: it writes a loop over lanes around what takes
// uniform registers.
__device__ inline void warp_bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                                      uint64_t policy) {
    asm volatile(
        "{ .reg .pred p; elect.sync _|p, 0xffffffff;"
        " @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%3], %2;"
        " @p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4; }" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}

// Of a warp that is together, for one of its lanes alone. `lane == 0` the compiler does not know to be alone:
// it writes a loop over lanes around what takes uniform registers, as copies do.
__device__ inline bool elected() {
    uint32_t own;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }" : "=r"(own));
    return own;
}

// --- grids that begin before the grid before them has ended --------------------------------------

// Nothing, on GPUs where none does.
__device__ inline void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_grid_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// --- more of the tensor core ----------------------------------------------------------------------

// d[16x8] = c + the number of common bits of a[16x128] and b[128x8].
__device__ inline void bmma_m16n8k128(uint32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b,
                                      const uint32_t (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5}, "
        "{%6}, {%7, %8, %9, %10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// d[16x8] += a[16x8] * b[8x8].
template <class T>
__device__ inline void mma_m16n8k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
    if constexpr (std::is_same_v<T, __half>)
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(b));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(b));
}

// d[16x8] += a[16x32, two of each four columns] * b[32x8]. Of each four lanes, 2 * STEP and the next
// one give the metadata: which columns.
template <class T, int STEP>
__device__ inline void mma_sp_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                                       uint32_t metadata) {
    if constexpr (std::is_same_v<T, __half>)
        asm volatile(
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]),
              "r"(b[3]), "r"(metadata), "n"(STEP));
    else
        asm volatile(
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]),
              "r"(b[3]), "r"(metadata), "n"(STEP));
}

// Four of the eight bytes of `low` and `high`, each chosen by a nibble of the selector's lower half; a
// nibble of 8 and more chooses copies of a byte's highest bit. (__byte_perm masks these nibbles.)
__device__ inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}

// Four of these eight bytes in a row, from number `first` on, of which the two lowest bits count.
__device__ inline uint32_t bytes_from(uint32_t low, uint32_t high, uint32_t first) {
    uint32_t bytes;
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(first));
    return bytes;
}

// Bits of `ones` where the mask has ones, of `zeros` where it has zeros: one instruction, where the
// compiler makes two if it knows the mask.
__device__ inline uint32_t select_bits(uint32_t mask, uint32_t ones, uint32_t zeros) {
    uint32_t bits;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(bits) : "r"(mask), "r"(ones), "r"(zeros));
    return bits;
}

// The same value, but out of the compiler's sight: it stays in a register, where ptxas would rather
// compute it anew in each turn of a loop.
__device__ inline uint32_t keep(uint32_t value) {
    return __shfl_sync(~0u, value, threadIdx.x % 32);
}

// The opposite: a value that the compiler takes for another one. What follows from it is computed again,
// instead of being kept in registers since before.
__device__ inline int anew(int value) {
    asm volatile("" : "+r"(value));
    return value;
}
__device__ inline int64_t anew(int64_t value) {
    asm volatile("" : "+l"(value));
    return value;
}

}  // namespace lscd

#endif
