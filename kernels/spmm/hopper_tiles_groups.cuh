// TCA-BME's way into shared memory, for the kernel by tiles: a ring of GroupTiles for all decoding warps of a
// thread block, each of which fetches one in its turn.
#pragma once
#include "hopper_tiles.cuh"

namespace lscd {
namespace {

// A place of the ring: bitmaps of a GroupTile, where its strips begin, values.
struct GroupTile {
    static constexpr int BITMAPS = 512, OFFSETS = 4 * OWN_STRIPS, VALUES = BITMAPS + OFFSETS;
};

// Places at least. A warp tells phases of a place from each other by their parity. A place is one set's, which
// waits for each of them. Who fetches is not: it has decoded round r, so that step r - A_PLACES is multiplied,
// and the other set has left round r - A_PLACES - 3. It waits until round r - 1, or r, is left: the phase
// before, LEAST_GROUPS rounds earlier, must be over.
constexpr int LEAST_GROUPS = 6;

// Its number, and whether it has had an odd number of GroupTiles before.
struct RingPlace {
    uint32_t number = 0, parity = 0;
    __device__ void advance(uint32_t steps, uint32_t places) {
        for (number += steps; number >= places; number -= places) parity ^= 1;
    }
};

__device__ inline Address group_is_there(Address memory, uint32_t place) {
    return memory + CHUNK_IS_THERE + 8 * place;
}
__device__ inline Address group_is_free(Address memory, uint32_t place) {
    return memory + CHUNK_IS_FREE + 8 * place;
}

// A: bitmap, values, gt_offset, strip_offset. A round is a GroupTile; where the values of the next one are, is
// looked up AHEAD, if there are registers for it.
template <class Has>
struct GroupFetcher : GroupTile {
    static constexpr bool AHEAD = !Has::FEW_TO_DECODE;

    const WgmmaProblem& p;
    Address memory;
    int rank = rank_in_cluster();
    Rounds next;
    RingPlace at;            // of that round
    int due;                 // which round has the place before; none: negative
    int2 ahead{};            // where its values begin and end

    __device__ GroupFetcher(const WgmmaProblem& p, Address memory, int warp)
        : p(p), memory(memory), next(p), due(-p.stages) {
        skip(warp);
    }

    __device__ void skip(int rounds) {
        next.skip(rounds), at.advance(rounds, p.stages), due += rounds;
        if (AHEAD && next.more() && exists()) ahead = located();
    }
    __device__ int2 located() const {
        const int32_t* offsets = static_cast<const int32_t*>(p.A[2]) + group();
        return {__ldg(offsets), __ldg(offsets + 1)};
    }
    __device__ int group_row() const { return next.row_block * PAIR + rank; }
    __device__ int group() const { return group_row() * p.rounds + next.round; }
    // The last row block may be without this half.
    __device__ bool exists() const { return group_row() * OWN_STRIPS < p.strips; }

    __device__ void copy(Address to, int array, int element, int size, int bytes, Address there) const {
        const uint8_t* data = static_cast<const uint8_t*>(p.A[array]) + int64_t(element) * size;
        bulk_copy(to, data, bytes, there, evict_first());
    }
    // ld_sparse: the round, to a place that nobody reads. Without rows what was there before is decoded again:
    // nobody stores what comes of it.
    __device__ void fetch() {
        Address to = memory + Has::CHUNKS + at.number * p.stage_bytes;
        Address there = group_is_there(memory, at.number);
        if (!exists()) {
            if (elected()) mbarrier_arrive(there);
        } else {
            auto [first, end] = AHEAD ? ahead : located();
            int values = 2 * (end - first);
            if (elected()) {
                mbarrier_arrive_expect(there, VALUES + values);
                copy(to, 0, group(), BITMAPS, BITMAPS, there);
                copy(to + BITMAPS, 3, group(), OFFSETS, OFFSETS, there);
                if (values) copy(to + VALUES, 1, first, 2, values, there);
            }
        }
        skip(Has::DECODING_WARPS);
    }
    __device__ void fill() {
#pragma unroll 1
        while (next.more() && due < 0) fetch();
    }
    // What takes the place of round `left` or the one before, if that is this warp's: other warps have left it
    // by now, or will soon.
    __device__ void refill(int left) {
        if (due > left || !next.more()) return;
        mbarrier_wait(group_is_free(memory, at.number), at.parity ^ 1);
        fetch();
    }
};

}  // namespace
}  // namespace lscd
