// Which instruction sets this CPU has, and the way into each kernel.
#include <new>

#include "spmm/strip.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lscd {

void spmm_portable(const Problem&);
#if defined(__x86_64__)
void spmm_avx2(const Problem&);
void spmm_avx512(const Problem&);
void spmm_avx512bf16(const Problem&);
void spmm_amx(const Problem&);
#endif

namespace {

enum class Isa : i32 { portable, avx2, avx512, avx512bf16, amx };

#if defined(__x86_64__)
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi2");
}

// AMX state is handed out on request only, once per process.
bool has_amx() {
#if defined(__linux__)
    constexpr long ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18;
    u32 a = 7, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    bool in_cpu = (d >> 22 & 1) && (d >> 24 & 1);  // AMX-BF16, AMX-TILE
    return in_cpu && has_avx512() &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}
#endif

constexpr i64 MAX_N = 512;  // columns per launch: bounds the scratch memory of a thread

void launch(Isa isa, const Problem& p) {
    switch (isa) {
#if defined(__x86_64__)
        case Isa::avx2: return spmm_avx2(p);
        case Isa::avx512: return spmm_avx512(p);
        case Isa::avx512bf16: return spmm_avx512bf16(p);
        case Isa::amx: return spmm_amx(p);
#endif
        default: return spmm_portable(p);
    }
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// 1 if this CPU has the instruction set: 0 portable, 1 avx2, 2 avx512, 3 avx512bf16, 4 amx.
LSCD_EXPORT i32 lscd_cpu_supports(i32 isa) {
    switch (Isa(isa)) {
        case Isa::portable: return 1;
#if defined(__x86_64__)
        case Isa::avx2: return has_avx2();
        case Isa::avx512: return has_avx512();
        case Isa::avx512bf16: return has_avx512() && __builtin_cpu_supports("avx512bf16");
        case Isa::amx: return has_amx();
#endif
        default: return 0;
    }
}

// The caller has checked everything; the instruction set must be one that lscd_cpu_supports.
// Returns 0, or 1 where memory for packed activations, sums or decoded rows could not be had.
LSCD_EXPORT i32 lscd_spmm(i32 isa, const Problem* whole) try {
    for (i64 n = 0; n < whole->N; n += MAX_N) {
        Problem part = *whole;
        part.N = min(MAX_N, whole->N - n);
        part.B += n * whole->B_stride_n;
        part.C += n * whole->C_stride_n;
        launch(Isa(isa), part);
    }
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}
