// The weights' way into shared memory, for the Hopper kernel: what a warp knows of its share, and its
// ring of bulk copies.
#pragma once
#include "hopper.cuh"

namespace lscd {
namespace {

// A warp's WarpShare, a number in each lane.
struct ShareNumbers {
    int mine;

    __device__ ShareNumbers(const WarpShare* shares, int warp, int lane)
        : mine(lane < WarpShare::NUMBERS
                   ? __ldg(reinterpret_cast<const int32_t*>(shares + warp) + lane)
                   : 0) {}
    __device__ int operator[](int place) const { return __shfl_sync(~0u, mine, place); }
};

// COPY chunks a copy. No other warp waits for it.
template <int COPY>
struct WarpRing {
    const HopperProblem& p;
    Address stages, barriers;
    int lane, last;  // behind the warp's last chunk
    // Where the next copy begins (lanes with even numbers) and ends in the data: loaded one copy ahead. A
    // number for each lane, since one for all would go to a uniform register, and be waited for at once.
    int next;

    // ld_sparse: a bulk copy of data from `start` to `end` into a stage, by this lane or, where all ask, by
    // one of them.
    __device__ void ld_sparse(Address stage, Address barrier, int start, int end, bool all) const {
        Address to = stage + in_line(start);
        auto* from = p.data() + int64_t(start) * 16;
        uint32_t bytes = (end - start) * 16;
        if (all) warp_bulk_copy(to, from, bytes, barrier, evict_first());
        else lane_bulk_copy(to, from, bytes, barrier, evict_first());
    }

    __device__ static int in_line(int start) { return start * 16 % LINE; }

    __device__ void begin() {
        if (lane < p.stages) mbarrier_init(barriers + 8 * lane, 1);
        mbarrier_init_fence();
    }

    // Copies `from` to `to` of the warp's first, by a lane each.
    __device__ void fill(const ShareNumbers& share, int from, int to) {
        int mine = WarpShare::STARTS + min(lane, p.stages);
        int start = share[mine], end = share[mine + 1];
        if (lane >= from && lane < to && end > start)
            ld_sparse(stages + lane * p.stage_bytes, barriers + 8 * lane, start, end, false);
        next = share[WarpShare::STARTS + p.stages + lane % 2];
    }

    // All lanes have read the stage, and `chunk` is next; the copy after those under way takes its
    // place.
    __device__ void refill(Address stage, Address barrier, int chunk) {
        __syncwarp();
        int copied = chunk + (p.stages - 1) * COPY;
        if (copied < last) {
            int start = __shfl_sync(~0u, next, 0), end = __shfl_sync(~0u, next, 1);
            ld_sparse(stage, barrier, start, end, true);
            next = __ldg(p.chunk_start() + min(copied + (1 + lane % 2) * COPY, last));
        }
    }
};

}  // namespace
}  // namespace lscd
