// The weights' way into shared memory, for the Hopper kernel: a warp's ring of bulk copies.
#pragma once
#include "hopper.cuh"

namespace lscd {
namespace {

// COPY chunks a copy. No other warp waits for it.
template <int COPY>
struct WarpRing {
    const HopperProblem& p;
    Address barriers;
    int lane, last;  // behind the warp's last chunk
    // The next copy: its first chunk, where it begins and ends in the data, in 16 bytes. Both are loaded a copy
    // ahead, as numbers of a lane: for a uniform register, or one copied into the other, a warp would wait
    // at once.
    int chunk, start, end;

    __device__ static int in_line(uint32_t start) { return start % (LINE / 16) * 16; }

    __device__ void begin() {
        if (lane < p.stages) mbarrier_init(barriers + 8 * lane, 1);
        mbarrier_init_fence();
    }

    // Copies `from` to `to` of the warp's first, by a lane each.
    __device__ void fill(const LaneNumbers<WarpShare>& share, Address stages, int from, int to) {
        int mine = WarpShare::STARTS + min(lane, p.stages);
        int first = share[mine], behind = share[mine + 1];
        if (lane >= from && lane < to && behind > first) {
            Address stage = stages + lane * p.stage_bytes;
            ld_sparse<false>(stage + in_line(first), p.data(), first, behind, barriers + 8 * lane);
        }
    }
    __device__ void filled(const LaneNumbers<WarpShare>& share) {
        int next = WarpShare::STARTS + p.stages;
        chunk = share[WarpShare::FIRST] + p.stages * COPY, start = share[next], end = share[next + 1];
    }

    // All lanes have read the stage; the copy after those under way takes its place.
    __device__ void refill(Address stage, Address barrier) {
        __syncwarp();
        if (uniform(chunk >= last)) return;
        ld_sparse<true>(stage + in_line(start), p.data(), start, end, barrier);
        chunk += COPY;
        start = __ldg(p.chunk_start() + anew(min(chunk, last)));
        end = __ldg(p.chunk_start() + anew(min(chunk + COPY, last)));
    }
};

}  // namespace
}  // namespace lscd
