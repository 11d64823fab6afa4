// The PTX that kernels use, each instruction under its own name, and the one pointer type through
// which they touch shared memory. Nothing else in kernels/ contains inline assembly: that keeps
// kernels readable, and lets the emulator run the same sources with functions of these names.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#ifdef LSCD_EMULATOR
#include "../emulator/ptx.h"
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

}  // namespace lscd

#endif
