// A warp's ring of chunks with two ends: one chunk lies at its beginning and the next one at its end, so that two have
// room where their bytes do, not those of the two largest. Two that do not fit side by side are copied one after
// another.
#pragma once
#include "hopper_wgmma_copies.cuh"

namespace lscd {
namespace {

// Of chunks that are whole lines.
template <int WARPS>
struct TwoEndedRing : ChunkCopies<WARPS> {
    using Base = ChunkCopies<WARPS>;
    using Base::p, Base::lane, Base::chunks, Base::start, Base::end, Base::has_copy;

    Address ring, barriers;       // one for each end
    Address here = 0, there = 0;  // the chunk that is read next, and the one behind it
    int room = 0;                 // for the next copy
    // Of the chunk that is read next: whether it is at the ring's end; its mbarrier's parity; whether, when it is read,
    // another one is under way.
    uint32_t at_end = 0, parity = 0, two = 0;

    __device__ TwoEndedRing(const WgmmaProblem& p, Address memory, int tile_bytes, int strip, int lane)
        : Base(p, memory, strip, lane), ring(Base::own_ring(tile_bytes)), barriers(Base::own_barriers()) {}
    // Whether the largest chunk has room.
    static bool fits(const WgmmaProblem& p) {
        return p.ring_bytes % LINE == 0 && p.stage_bytes > 0 && p.stage_bytes <= p.ring_bytes;
    }

    __device__ int bytes() const { return (end - start) * 16; }
    __device__ int room_beside() const { return p.ring_bytes - bytes(); }
    __device__ Address place(uint32_t at_end) const { return ring + at_end * room_beside(); }

    // The first two copies are a lane's each: where it begins and ends, then copies `from` to `to`. The record has no
    // second one if that does not fit beside the first one.
    __device__ void begin(const LaneNumbers<WarpStart>& record) {
        static_assert(STRIP_STAGES == 2);
        Base::begin(record, STRIP_STAGES);
        here = ring, there = __shfl_sync(~0u, place(1), 1);
        two = __shfl_sync(~0u, has_copy(), 1);
        room = __shfl_sync(~0u, room_beside(), 1);
    }
    __device__ void fill(int from, int to) const {
        if (!has_copy() || lane < from || lane >= to) return;
        ld_sparse<false>(lane ? there : here, p.data(), start, end, barriers + 8 * lane);
    }

    // Until the chunk that is read next is there.
    __device__ void wait() const { mbarrier_wait(barriers + 8 * at_end, parity); }
    __device__ Address chunk() const { return here; }

    // All lanes have read the chunk; the next copy takes its place, if it fits beside the one that is under way, else
    // when that has been read, too, and then perhaps another one beside it.
    __device__ void refill() {
        here = there, parity ^= at_end, at_end ^= 1;
#pragma unroll 1
        while (true) {
            __syncwarp();  // also behind a copy, which may be a segment's last, before another one that may be
            uint32_t its_end = at_end ^ two;
            if (uniform(chunks.at >= chunks.last || bytes() > room)) break;
            Address to = place(its_end);
            ld_sparse<true>(to, p.data(), start, end, barriers + 8 * its_end);
            room = room_beside();
            Base::next();
            if (uniform(two)) {
                there = to;
                return;
            }
            here = to, two = 1;
        }
        two = 0, room = p.ring_bytes;
    }
};

}  // namespace
}  // namespace lscd
