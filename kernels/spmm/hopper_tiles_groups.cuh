// TCA-BME's way into shared memory, for the kernel by tiles: a ring of rounds for all decoding warps of a
// thread block. Each warp fetches every fourth round.
#pragma once
#include "hopper_tiles.cuh"

namespace lscd {
namespace {

// A round: two GroupTiles side by side. Bitmaps of both, where their strips begin, a header, values of both.
// The header says how many GroupTiles there are, and how many bytes the first one's values have.
struct GroupPair {
    static constexpr int GROUPS = 2, BITMAPS = 512, STRIPS = GROUPS * BITMAPS, OFFSETS = 4 * OWN_STRIPS;
    static constexpr int HEADER = STRIPS + GROUPS * OFFSETS, VALUES = HEADER + 16;
    static constexpr int ARRIVALS = 4;  // of three copies, and of the header
};

__device__ inline Address groups_are_there(Address memory, uint32_t place) {
    return memory + CHUNK_IS_THERE + 8 * place;
}
__device__ inline Address groups_are_free(Address memory, uint32_t place) {
    return memory + CHUNK_IS_FREE + 8 * place;
}

// RING: where it begins in shared memory. A: bitmap, values, gt_offset, strip_offset. Where the values of the
// next round to fetch are, is looked up AHEAD, if there are registers for it.
template <int RING, bool AHEAD>
struct GroupFetcher : GroupPair {
    const WgmmaProblem& p;
    Address memory;
    int rank = rank_in_cluster(), lane = threadIdx.x % 32;
    Rounds next;
    int number = threadIdx.x / 32;       // of that round
    int first = 0, second = 0, end = 0;  // of values of its GroupTiles

    __device__ GroupFetcher(const WgmmaProblem& p, Address memory) : p(p), memory(memory), next(p) {
        next.skip(number);
        if (AHEAD) locate();
    }

    __device__ int row_groups() const { return ceil_div(p.K, STEP_COLS); }
    __device__ int group_row() const { return next.row_block * PAIR + rank; }
    __device__ int64_t group() const { return int64_t(group_row()) * row_groups() + GROUPS * next.round; }
    // None where the last row block is without this half.
    __device__ int groups() const {
        return group_row() * OWN_STRIPS < p.strips ? min(GROUPS, row_groups() - GROUPS * next.round) : 0;
    }
    __device__ void locate() {
        if (!next.more() || !groups()) return;
        const int32_t* offsets = static_cast<const int32_t*>(p.A[2]) + group();
        first = __ldg(offsets), second = __ldg(offsets + 1), end = __ldg(offsets + groups());
    }
    __device__ void copy(Address to, int array, int64_t from, int bytes, Address there) const {
        const uint8_t* data = static_cast<const uint8_t*>(p.A[array]) + from;
        if (bytes) warp_bulk_copy(to, data, bytes, there, evict_first());
        else if (lane == 0) mbarrier_arrive(there);
    }
    // ld_sparse: the round, to a place that nobody reads.
    __device__ void fetch(uint32_t place) {
        Address to = memory + RING + place * p.stage_bytes, there = groups_are_there(memory, place);
        int count = groups();
        if (!AHEAD) locate();
        if (lane == 0) {
            st_shared_v2(to + HEADER, {uint32_t(count), uint32_t(2 * (second - first))});
            mbarrier_arrive(there);
        }
        copy(to, 0, group() * BITMAPS, count * BITMAPS, there);
        copy(to + STRIPS, 3, group() * OFFSETS, count * OFFSETS, there);
        copy(to + VALUES, 1, int64_t(first) * 2, count ? 2 * (end - first) : 0, there);
        number += DECODING_WARPS;
        next.skip(DECODING_WARPS);
        if (AHEAD) locate();
    }
    __device__ void fill() {
#pragma unroll 1
        while (next.more() && number < p.stages) fetch(number);
    }
    // While round `now` is decoded: what takes the place of the one before, if that is this warp's. The other
    // warps have left it by now, or will soon.
    __device__ void refill(int now) {
        if (!next.more() || number - p.stages != now - 1) return;
        uint32_t place = number % p.stages;
        mbarrier_wait(groups_are_free(memory, place), (number / p.stages - 1) & 1);
        fetch(place);
    }
};

}  // namespace
}  // namespace lscd
