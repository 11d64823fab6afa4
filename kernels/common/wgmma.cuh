// The PTX of warpgroups on sm_90: four warps that multiply matrices in shared memory, asynchronously. As
// in ptx.cuh each instruction has its own name, and the emulator has functions of these names.
//
//   wgmma_fence()                  registers are written: products may read them
//   wgmma_...(sums, ...)           products, several
//   wgmma_commit()                 they are a group
//   wgmma_wait<n>()                all but the latest n groups are done: until then their sums, their
//                                  registers and what they read in shared memory are theirs
#pragma once
#include "ptx.cuh"

namespace lscd {

// --- descriptors of matrices in shared memory ------------------------------------------------------
//
// Sixteen bytes number i of row r of a matrix k_major lie where number i ^ r % 8 would. It begins at a multiple of 8
// rows; parts of its rows, further on in them.

// [rows of A or columns of B][k], 128 bytes a row.
__device__ inline uint64_t k_major(Address at) {
    constexpr uint64_t SWIZZLE_128 = 1, EIGHT_ROWS = 8 * 128, UNUSED = 1;
    return (at & 0x3ffff) >> 4 | UNUSED << 16 | EIGHT_ROWS >> 4 << 32 | SWIZZLE_128 << 62;
}

// B as [n / 8][k][8], without a swizzle: what follows in n is `next` bytes further on.
__device__ inline uint64_t n_major(Address at, uint64_t next) {
    constexpr uint64_t EIGHT_ROWS = 8 * 16;
    return (at & 0x3ffff) >> 4 | EIGHT_ROWS >> 4 << 16 | next >> 4 << 32;
}

}  // namespace lscd

#ifdef LSCD_EMULATOR
#include "../emulator/instructions/wgmma.h"
#else

namespace lscd {

// What this thread has stored into shared memory, wgmma and bulk copies see after the next barrier.
__device__ inline void async_proxy_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int GROUPS>
__device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

// A value for a product: the compiler must compute it here, not behind the fence.
__device__ inline uint32_t wgmma_operand(uint32_t value) {
    asm volatile("" : "+r"(value)::"memory");
    return value;
}

// Registers of a product that has been waited for: the compiler must leave them until here.
__device__ inline void wgmma_used(const uint32_t (&r)[4]) {
    asm volatile("" ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
}

// The sums of N columns as operands, and their numbers.
#define LSCD_D(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define LSCD_D8 LSCD_D(0)
#define LSCD_D16 LSCD_D8, LSCD_D(1)
#define LSCD_D24 LSCD_D16, LSCD_D(2)
#define LSCD_D32 LSCD_D24, LSCD_D(3)
#define LSCD_D40 LSCD_D32, LSCD_D(4)
#define LSCD_D48 LSCD_D40, LSCD_D(5)
#define LSCD_D56 LSCD_D48, LSCD_D(6)
#define LSCD_D64 LSCD_D56, LSCD_D(7)
#define LSCD_D80 LSCD_D64, LSCD_D(8), LSCD_D(9)
#define LSCD_D96 LSCD_D80, LSCD_D(10), LSCD_D(11)
#define LSCD_D112 LSCD_D96, LSCD_D(12), LSCD_D(13)
#define LSCD_D128 LSCD_D112, LSCD_D(14), LSCD_D(15)
#define LSCD_D144 LSCD_D128, LSCD_D(16), LSCD_D(17)
#define LSCD_D160 LSCD_D144, LSCD_D(18), LSCD_D(19)
#define LSCD_D176 LSCD_D160, LSCD_D(20), LSCD_D(21)
#define LSCD_D192 LSCD_D176, LSCD_D(22), LSCD_D(23)
#define LSCD_D224 LSCD_D192, LSCD_D(24), LSCD_D(25), LSCD_D(26), LSCD_D(27)
#define LSCD_D256 LSCD_D224, LSCD_D(28), LSCD_D(29), LSCD_D(30), LSCD_D(31)
#define LSCD_R8 "%0, %1, %2, %3"
#define LSCD_R16 LSCD_R8 ", %4, %5, %6, %7"
#define LSCD_R24 LSCD_R16 ", %8, %9, %10, %11"
#define LSCD_R32 LSCD_R24 ", %12, %13, %14, %15"
#define LSCD_R40 LSCD_R32 ", %16, %17, %18, %19"
#define LSCD_R48 LSCD_R40 ", %20, %21, %22, %23"
#define LSCD_R56 LSCD_R48 ", %24, %25, %26, %27"
#define LSCD_R64 LSCD_R56 ", %28, %29, %30, %31"
#define LSCD_R80 LSCD_R64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LSCD_R96 LSCD_R80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LSCD_R112 LSCD_R96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LSCD_R128 LSCD_R112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LSCD_R144 LSCD_R128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LSCD_R160 LSCD_R144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LSCD_R176 LSCD_R160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define LSCD_R192 LSCD_R176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LSCD_R224                                                                                      \
    LSCD_R192 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define LSCD_R256                                                                                      \
    LSCD_R224 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// d[64 x N] (+)= a[64x16] * b[16 x N], without the sum where `adds` is 0. a and b lie k_major. Of the
// 16 rows of a warp, d[i] of a lane is of columns 8 i on, as of mma.
template <class T, int N>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[N / 8][4], uint64_t a, uint64_t b,
                                             uint32_t adds) {
#define LSCD_WGMMA(TYPE, COLS, A, B, ADDS)                                                             \
    asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " ADDS ", 0; "                                 \
                 "wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32." TYPE "." TYPE " {" LSCD_R##COLS  \
                 "}, " A ", " B ", adds, 1, 1, 0, 0; }"                                               \
                 : LSCD_D##COLS                                                                       \
                 : "l"(a), "l"(b), "r"(adds))
#define LSCD_TYPES(COLS, A, B, ADDS)                                                                   \
    if constexpr (N == COLS && std::is_same_v<T, __half>) LSCD_WGMMA("f16", COLS, A, B, ADDS);         \
    if constexpr (N == COLS && !std::is_same_v<T, __half>) LSCD_WGMMA("bf16", COLS, A, B, ADDS)
    static_assert(N == 8 || N == 16 || N == 32 || N == 64 || (N >= 112 && N <= 192 && N % 16 == 0) ||
                  N == 224 || N == 256);
    LSCD_TYPES(8, "%4", "%5", "%6");
    LSCD_TYPES(16, "%8", "%9", "%10");
    LSCD_TYPES(32, "%16", "%17", "%18");
    LSCD_TYPES(64, "%32", "%33", "%34");
    LSCD_TYPES(112, "%56", "%57", "%58");
    LSCD_TYPES(128, "%64", "%65", "%66");
    LSCD_TYPES(144, "%72", "%73", "%74");
    LSCD_TYPES(160, "%80", "%81", "%82");
    LSCD_TYPES(176, "%88", "%89", "%90");
    LSCD_TYPES(192, "%96", "%97", "%98");
    LSCD_TYPES(224, "%112", "%113", "%114");
    LSCD_TYPES(256, "%128", "%129", "%130");
#undef LSCD_TYPES
#undef LSCD_WGMMA
}

// d[64 x N] += a[64x16] * b[16 x N]; a in registers, as of mma, and b k_major.
template <class T, int N>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b) {
#define LSCD_WGMMA(TYPE, COLS, A, B)                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32." TYPE "." TYPE " {" LSCD_R##COLS  \
                 "}, {" A "}, " B ", 1, 1, 1, 0;"                                                      \
                 : LSCD_D##COLS                                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define LSCD_TYPES(COLS, A, B)                                                                         \
    if constexpr (N == COLS && std::is_same_v<T, __half>) LSCD_WGMMA("f16", COLS, A, B);               \
    if constexpr (N == COLS && !std::is_same_v<T, __half>) LSCD_WGMMA("bf16", COLS, A, B)
    static_assert(N % 8 == 0 && N <= 64 || N % 16 == 0 && N <= 192 || N % 32 == 0 && N <= 256);
    LSCD_TYPES(8, "%4, %5, %6, %7", "%8");
    LSCD_TYPES(16, "%8, %9, %10, %11", "%12");
    LSCD_TYPES(24, "%12, %13, %14, %15", "%16");
    LSCD_TYPES(32, "%16, %17, %18, %19", "%20");
    LSCD_TYPES(40, "%20, %21, %22, %23", "%24");
    LSCD_TYPES(48, "%24, %25, %26, %27", "%28");
    LSCD_TYPES(56, "%28, %29, %30, %31", "%32");
    LSCD_TYPES(64, "%32, %33, %34, %35", "%36");
    LSCD_TYPES(80, "%40, %41, %42, %43", "%44");
    LSCD_TYPES(96, "%48, %49, %50, %51", "%52");
    LSCD_TYPES(112, "%56, %57, %58, %59", "%60");
    LSCD_TYPES(128, "%64, %65, %66, %67", "%68");
    LSCD_TYPES(144, "%72, %73, %74, %75", "%76");
    LSCD_TYPES(160, "%80, %81, %82, %83", "%84");
    LSCD_TYPES(176, "%88, %89, %90, %91", "%92");
    LSCD_TYPES(192, "%96, %97, %98, %99", "%100");
    LSCD_TYPES(224, "%112, %113, %114, %115", "%116");
    LSCD_TYPES(256, "%128, %129, %130, %131", "%132");
#undef LSCD_TYPES
#undef LSCD_WGMMA
}

// d[64 x N] (+)= a[64x32, two of each four columns] * b[32 x N], without the sum where `adds` is 0; a
// in registers, as of mma_sp, and b n_major. Of each four lanes, 2 * STEP and the next one give the
// metadata: which columns.
template <class T, int N, int STEP>
__device__ __forceinline__ void wgmma_sp_m64k32(float (&d)[N / 8][4], const uint32_t (&a)[4],
                                                uint64_t b, const uint32_t& metadata, uint32_t adds) {
#define LSCD_WGMMA(TYPE, COLS, A, B, ADDS)                                                             \
    asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " ADDS ", 0; "                                 \
                 "wgmma.mma_async.sp.sync.aligned.m64n" #COLS "k32.f32." TYPE "." TYPE                 \
                 " {" LSCD_R##COLS "}, {" A "}, " B ", adds, 1, 1, 1; }"                              \
                 : LSCD_D##COLS                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(metadata), "n"(STEP),      \
                   "r"(adds))
#define LSCD_TYPES(COLS, A, B, ADDS)                                                                   \
    if constexpr (N == COLS && std::is_same_v<T, __half>) LSCD_WGMMA("f16", COLS, A, B, ADDS);         \
    if constexpr (N == COLS && !std::is_same_v<T, __half>) LSCD_WGMMA("bf16", COLS, A, B, ADDS)
    static_assert(24 <= N && (N % 8 == 0 && N <= 64 || N % 16 == 0 && N <= 128 || N == 160));
    LSCD_TYPES(24, "%12, %13, %14, %15", "%16, %17, %18", "%19");
    LSCD_TYPES(32, "%16, %17, %18, %19", "%20, %21, %22", "%23");
    LSCD_TYPES(40, "%20, %21, %22, %23", "%24, %25, %26", "%27");
    LSCD_TYPES(48, "%24, %25, %26, %27", "%28, %29, %30", "%31");
    LSCD_TYPES(56, "%28, %29, %30, %31", "%32, %33, %34", "%35");
    LSCD_TYPES(64, "%32, %33, %34, %35", "%36, %37, %38", "%39");
    LSCD_TYPES(80, "%40, %41, %42, %43", "%44, %45, %46", "%47");
    LSCD_TYPES(96, "%48, %49, %50, %51", "%52, %53, %54", "%55");
    LSCD_TYPES(112, "%56, %57, %58, %59", "%60, %61, %62", "%63");
    LSCD_TYPES(128, "%64, %65, %66, %67", "%68, %69, %70", "%71");
    LSCD_TYPES(160, "%80, %81, %82, %83", "%84, %85, %86", "%87");
#undef LSCD_TYPES
#undef LSCD_WGMMA
}

}  // namespace lscd

#endif
