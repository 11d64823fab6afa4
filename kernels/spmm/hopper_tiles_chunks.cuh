// Decoding warps whose strip lies in chunks of 16 x 256: a ring of them for each, and four steps in a chunk.
//
//   ld_sparse   a ring of chunks, refilled by bulk copies
//   decode      Own: a chunk becomes four parts of dense tiles, 16 x 64 each, zeros included, here and in the
//               other thread block of the pair
#pragma once
#include "hopper_tiles_strip.cuh"

namespace lscd {
namespace {

constexpr int CHUNKS_UNDER_WAY = 2;  // of a decoding warp
constexpr int STEPS_OF_ROUND = 4;    // quarters of a chunk
static_assert(CHUNKS_UNDER_WAY * OWN_STRIPS <= MOST_CHUNKS);

template <class Has, class Own>
struct ChunkWarp : StripWarp<Has> {
    using Base = StripWarp<Has>;
    using Base::p, Base::memory, Base::warp, Base::lane;

    Address ring;

    __device__ ChunkWarp(const WgmmaProblem& p, Address memory)
        : Base(p, memory), ring(memory + Has::CHUNKS + warp * CHUNKS_UNDER_WAY * p.stage_bytes) {}

    __device__ Address is_there(uint32_t place) const {
        return memory + CHUNK_IS_THERE + (warp * CHUNKS_UNDER_WAY + place) * 8;
    }
    __device__ void prepare() const {
        if (lane == 0)
            for (int i = 0; i < CHUNKS_UNDER_WAY; i++) mbarrier_init(is_there(i), 1);
    }

    // The next round's chunk, if there is one, to this place of the ring, all but far steps. The last row block
    // may be without this strip: then another one's, whose rows nobody stores.
    __device__ bool fetch(Rounds& next, uint32_t place) const {
        if (!next.more()) return false;
        int strip = min(next.row_block * PAIR_STRIPS + this->strip(), p.strips - 1);
        const int32_t* start = p.chunk_start() + int64_t(strip) * p.rounds + next.round;
        int first = __ldg(start), bytes = min((__ldg(start + 1) - first) * 16, p.stage_bytes);
        warp_bulk_copy(ring + place * p.stage_bytes, p.data() + int64_t(first) * 16, bytes,
                       is_there(place), evict_first());
        next.next();
        return true;
    }

    __device__ void run() const {
        Rounds next(p);
        bool now = fetch(next, 0), later = fetch(next, 1);
        uint32_t place = 0, parity = 0;
        static_assert(CHUNKS_UNDER_WAY == 2);
#pragma unroll 1
        for (uint32_t round = 0; now; round++) {
            mbarrier_wait(is_there(place), parity >> place & 1);
            parity ^= 1 << place;
            static_cast<const Own&>(*this).decode(place, round);
            now = later;
            later = fetch(next, place);  // behind the last quarter's meetings all have read the chunk
            place ^= 1;
        }
    }
};

}  // namespace
}  // namespace lscd
