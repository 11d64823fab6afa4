// The end of the wgmma kernel: C of row blocks that several thread blocks have parts of.
#pragma once
#include "../common/store.cuh"
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// Sums in the order of their slots: the same bits in every run. A block has eight columns, a
// thread a row.
template <class T, int BLOCK_N>
struct AddSlots {
    static constexpr int ROWS = row_block(BLOCK_N);

    const WgmmaProblem& p;
    int shared = blockIdx.x / (BLOCK_N / 8), first_n = blockIdx.x % (BLOCK_N / 8) * 8;
    int row = threadIdx.x, pass = blockIdx.y;

    __device__ void run() const {
        uint4 rows = __ldg(reinterpret_cast<const uint4*>(p.shared + shared));
        float sum[8] = {};
        int m = rows.x * ROWS + row, n0 = pass * BLOCK_N + first_n;
        wait_for_previous_grid();
        if (m >= p.M) return;  // strips that A does not have write no sums
        for (int slot = rows.y; slot < int(rows.z); slot++)
#pragma unroll
            for (int n = 0; n < 8; n++) sum[n] += ld_global(partial(slot, first_n + n));
#pragma unroll
        for (int n = 0; n < 8; n++)
            if (n0 + n < p.N) round_to(static_cast<T*>(p.C) + (n0 + n) * p.ldc + m, sum[n]);
    }
    __device__ const float* partial(int slot, int n) const {
        return p.partial + ((int64_t(pass) * p.slots + slot) * BLOCK_N + n) * ROWS + row;
    }
};

template <class T, int BLOCK_N>
__global__ void __launch_bounds__(row_block(BLOCK_N)) add_slots(const __grid_constant__ WgmmaProblem p) {
#if LSCD_SM90
    let_next_grid_begin();
    AddSlots<T, BLOCK_N>{p}.run();
#else
    __trap();
#endif
}

}  // namespace
}  // namespace lscd
