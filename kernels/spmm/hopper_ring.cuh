// The weights' way into shared memory, for the Hopper kernel: a warp's ring of bulk copies.
#pragma once
#include "hopper.cuh"

namespace lscd {
namespace {

// COPY chunks a copy. No other warp waits for it.
template <int COPY>
struct WarpRing {
    const HopperProblem& p;
    Address stages, barriers;
    int lane, last;  // behind the warp's last chunk
    // Where the next copy begins (lanes with even numbers) and ends in the data: loaded one copy ahead. A
    // number for each lane, since one for all would go to a uniform register, and be waited for at once.
    int next;

    __device__ static int in_line(int start) { return start * 16 % LINE; }

    __device__ void begin() {
        if (lane < p.stages) mbarrier_init(barriers + 8 * lane, 1);
        mbarrier_init_fence();
    }

    // Copies `from` to `to` of the warp's first, by a lane each.
    __device__ void fill(const LaneNumbers<WarpShare>& share, int from, int to) {
        int mine = WarpShare::STARTS + min(lane, p.stages);
        int start = share[mine], end = share[mine + 1];
        if (lane >= from && lane < to && end > start) {
            Address stage = stages + lane * p.stage_bytes;
            ld_sparse<false>(stage + in_line(start), p.data(), start, end, barriers + 8 * lane);
        }
        next = share[WarpShare::STARTS + p.stages + lane % 2];
    }

    // All lanes have read the stage, and `chunk` is next; the copy after those under way takes its
    // place.
    __device__ void refill(Address stage, Address barrier, int chunk) {
        __syncwarp();
        int copied = chunk + (p.stages - 1) * COPY;
        if (copied < last) {
            int start = __shfl_sync(~0u, next, 0), end = __shfl_sync(~0u, next, 1);
            ld_sparse<true>(stage + in_line(start), p.data(), start, end, barrier);
            next = __ldg(p.chunk_start() + min(copied + (1 + lane % 2) * COPY, last));
        }
    }
};

}  // namespace
}  // namespace lscd
