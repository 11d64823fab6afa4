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
    // Where the next copy begins and ends in the data: known one copy ahead.
    int next_start, next_end;

    // ld_sparse: a bulk copy of data from `start` to `end` into a stage.
    __device__ void ld_sparse(Address stage, Address barrier, int start, int end) {
        uint32_t bytes = (end - start) * 16;
        mbarrier_arrive_expect(barrier, bytes);
        bulk_copy(stage + in_line(start), p.data() + int64_t(start) * 16, bytes, barrier, evict_first());
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
            ld_sparse(stages + lane * p.stage_bytes, barriers + 8 * lane, start, end);
        next_start = __shfl_sync(~0u, start, p.stages), next_end = __shfl_sync(~0u, end, p.stages);
    }

    // All lanes have read the stage, and `chunk` is next; the copy after those under way takes its
    // place.
    __device__ void refill(Address stage, Address barrier, int chunk) {
        __syncwarp();
        int copied = chunk + (p.stages - 1) * COPY;
        if (copied < last) {
            if (elect()) ld_sparse(stage, barrier, next_start, next_end);
            // Both anew: of a start that was the end before, the compiler would make a copy, and wait for it.
            next_start = __ldg(p.chunk_start() + min(copied + COPY, last));
            next_end = __ldg(p.chunk_start() + min(copied + 2 * COPY, last));
        }
    }
};

}  // namespace
}  // namespace lscd
