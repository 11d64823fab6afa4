// The end of the wgmma kernel: sums on their way to C, at once or as parts of a row block that several
// thread blocks have; and C of the latter.
#pragma once
#include "../common/store.cuh"
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// partial[pass][slot], as its threads have it: of eight columns, four sums of each. Both who writes and
// who reads them do so by 16 bytes a thread, side by side. Behind them, for those that owners add, a flag for each
// warp, set once its sums are there, until their reader has seen that.
template <int BLOCK_N, int OF_WARPS, bool HAVE_FLAGS = true>
struct PartialSums {
    static constexpr int WARPS = OF_WARPS, ROWS = WARPS * STRIP_ROWS, THREADS = WARPS * 32;
    static constexpr int EIGHTS = BLOCK_N / 8;
    static constexpr int SUMS = EIGHTS * THREADS, FLAGS = HAVE_FLAGS ? WARPS / 2 : 0;  // of 16 bytes
    float4* first;

    __device__ PartialSums(const WgmmaProblem& p, int pass, int slot)
        : first(reinterpret_cast<float4*>(p.partial) + (int64_t(pass) * p.slots + slot) * (SUMS + FLAGS)) {}
    __device__ float4* at(int eight, int thread) const { return first + eight * THREADS + thread; }
    __device__ uint64_t* flag(int warp) const {
        return reinterpret_cast<uint64_t*>(first + SUMS) + warp;
    }
};

// Where a lane's four sums of eight columns go in C: rows m and m + 8, columns n and n + 1.
template <class T>
struct RoundedSums {
    const WgmmaProblem& p;
    int n;
    bool has[2];  // whether these rows are inside
    float bias[2];
    T* to;

    __device__ RoundedSums(const WgmmaProblem& p, int m, int n)
        : p(p), n(n), has{m < p.M, m + 8 < p.M}, to(static_cast<T*>(p.C) + n * p.ldc + m) {
        for (int i = 0; i < 2; i++) bias[i] = has[i] ? bias_of<T>(p, m + 8 * i) : 0;
    }

    __device__ void store(const float (&sum)[4]) const {
#pragma unroll
        for (int r = 0; r < 4; r++)
            if (has[r / 2] && n + r % 2 < p.N)
                round_to(to + r % 2 * p.ldc + r / 2 * 8, finished(p, sum[r], bias[r / 2]));
    }
    __device__ void next_eight() { n += 8, to += 8 * p.ldc; }
};

// Sums in the order of their slots: the same bits in every run. A block has eight columns of a row
// block, as many threads as have written them.
template <class T, int BLOCK_N, int WARPS>
struct AddSlots {
    using Partial = PartialSums<BLOCK_N, WARPS>;

    const WgmmaProblem& p;
    int shared = blockIdx.x / Partial::EIGHTS, eight = blockIdx.x % Partial::EIGHTS;
    int strip = threadIdx.x / 32, lane = threadIdx.x % 32, pass = blockIdx.y;

    __device__ void run() const {
        uint4 rows = __ldg(reinterpret_cast<const uint4*>(p.shared + shared));
        int m = rows.x * Partial::ROWS + strip * STRIP_ROWS + lane / 4;
        int n = pass * BLOCK_N + eight * 8 + lane % 4 * 2;
        float sum[4] = {};
        wait_for_previous_grid();
        if (m >= p.M) return;  // strips that A does not have write no sums
#pragma unroll 4
        for (int slot = rows.y; slot < int(rows.z); slot++)
            add_quad(sum, ld_global(Partial(p, pass, slot).at(eight, threadIdx.x)));
        RoundedSums<T>(p, m, n).store(sum);
    }
};

template <class T, int BLOCK_N, int WARPS>
__global__ void __launch_bounds__(PartialSums<BLOCK_N, WARPS>::THREADS)
    add_slots(const __grid_constant__ WgmmaProblem p) {
#if LSCD_SM90
    let_next_grid_begin();
    AddSlots<T, BLOCK_N, WARPS>{p}.run();
#else
    __trap();
#endif
}

// An SM must be empty before it divides its memory into cache and shared memory anew. So the grids around the
// product, which takes all shared memory, ask for the same division.
template <class P>
cudaError_t divide_as_product(void (*kernel)(P)) {
    return cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutMaxShared);
}

}  // namespace
}  // namespace lscd
