// Tiles of B', or of B, on their way to shared memory, in one ring for all warps of a thread block. Nobody waits to
// produce: the last of the warps to leave a tile fetches the next one. Whoever that is, results are the same.
#pragma once
#include "hopper_wgmma_copies.cuh"

namespace lscd {
namespace {

// What all rings of tiles do.
template <class FORMAT, int BLOCK_N, int WARPS>
struct DenseCopies {
    using Problem = typename FORMAT::Problem;
    using Tile = typename FORMAT::template Tile<BLOCK_N>;
    using Tiles = Walk<0, Tile::OF_ROUND>;

    const Problem& p;
    Address memory;  // of the block
    int warp, lane;

    __device__ DenseCopies(const Problem& p, Address memory, int warp, int lane)
        : p(p), memory(memory), warp(warp), lane(lane) {}

    // Of a tile's place, `PLACE_BYTES` behind the one before: the tile, and the mbarrier that says whether it is there.
    __device__ Address tile(uint32_t place) const {
        static_assert(Tile::BYTES % PLACE_BYTES == 0);
        return memory + DENSE_TILES + place * (Tile::BYTES / PLACE_BYTES);
    }
    __device__ Address is_there_at(uint32_t place) const { return memory + place; }
    // A tile as wgmma is told of it, by descriptors: the lower half of its own one, uniform, so that these cost no
    // vector registers; and from row k on, a sum without a carry. Counted from the first tile's: an instruction.
    __device__ uint32_t rows(uint32_t place) const {
        static_assert(Tile::BYTES % (16 * PLACE_BYTES) == 0);
        uint32_t first = Tile::descriptor(memory + DENSE_TILES);
        return __shfl_sync(~0u, first + place * (Tile::BYTES / PLACE_BYTES / 16), 0);
    }
    __device__ static uint64_t descriptor(uint32_t rows, int k) {
        uint64_t upper = Tile::descriptor(0) >> 32 << 32;
        return (upper | rows) + Tile::further(k);
    }

    // ld_dense: a copy of the nth tile.
    __device__ void ld_dense(uint32_t place, int nth) const {
        Tile::ld_dense(p, blockIdx.y, nth, tile(place), is_there_at(place));
    }

    // One lane of each of the first warps begins with a tile.
    __device__ bool begins() const { return lane == 0 && warp < p.tile_slots; }
    // Tiles `from` to `to`, by a warp each.
    __device__ void fill(const LaneNumbers<WarpStart>& record, int from, int to) const {
        Tiles tile(record, WarpStart::TILE), then(record, WarpStart::NEXT_TILE);
        if (!begins() || warp < from || warp >= to || !tile.more()) return;
        ld_dense(warp * PLACE_BYTES, tile.at);
        expect(warp * PLACE_BYTES, then);
    }
    // The tile under way to this place, and what comes after it: stored before the mbarrier knows of the copy,
    // for whoever will have waited for it.
    __device__ void expect(uint32_t place, const Tiles& then) const {
        Address to = memory + place + COMES_NEXT;
        st_shared(to, then.segment), st_shared(to + 4, then.at), st_shared(to + 8, then.last);
        mbarrier_arrive_expect(is_there_at(place), Tile::BYTES);
    }
    // What comes next in this place, if anything does; all have left what was there.
    __device__ void fetch_next(uint32_t place) const {
        Address next = memory + place + COMES_NEXT;
        Tiles tile(ld_shared(next), ld_shared(next + 4), ld_shared(next + 8));
        if (!tile.more()) return;
        ld_dense(place, tile.at);
        tile.skip(p, p.tile_slots);
        expect(place, tile);
    }
};

// The tiles, as one warp sees them: a round's are one.
template <class FORMAT, int BLOCK_N, int WARPS>
struct DenseRing : DenseCopies<FORMAT, BLOCK_N, WARPS> {
    using Base = DenseCopies<FORMAT, BLOCK_N, WARPS>;
    using Base::Base, Base::p, Base::memory, Base::warp, Base::lane;
    static_assert(Base::Tile::OF_ROUND == 1);
    static constexpr int LEAST_TILES = 2, MOST_TILES = lscd::MOST_TILES, APART = 1;
    static constexpr int STEPS = 1;  // of a tile, that are told apart: the first one

    uint32_t at = 0, before = 0;  // places of the tile that is read next, and of the one before
    uint32_t parity = 0;          // of the former
    uint32_t left_before = 0;     // the latter, by how many warps

    __device__ Address tile() const { return Base::tile(at); }
    __device__ uint32_t rows() const { return Base::rows(at); }

    __device__ void make_barriers() const {
        if (!this->begins()) return;
        mbarrier_init(this->is_there_at(warp * PLACE_BYTES), 1);
        st_shared(memory + warp * PLACE_BYTES + LEFT, 0);  // nobody has left it
    }
    __device__ void wait() const { mbarrier_wait(this->is_there_at(at), parity); }
    // Asked ahead of time, since the answer takes some.
    __device__ bool is_there() const { return mbarrier_is_over(this->is_there_at(at), parity); }
    // A name of its own, since results do not depend on it: the test that takes waits away leaves it.
    __device__ void until_first_is_there() const { wait(); }
    __device__ void advance() {
        before = at, at += PLACE_BYTES;
        if (at == uint32_t(p.tile_slots) * PLACE_BYTES) at = 0, parity ^= 1;
    }

    // This warp has read the tile, and synchronised since. How many had before, lane 0 learns.
    __device__ uint32_t leave(uint32_t place) const {
        return count_shared(lane == 0, memory + place + LEFT, WARPS - 1);
    }
    // The last one to leave fetches another tile, for all.
    __device__ void refill(uint32_t place, uint32_t left_before) const {
        if (left_before == WARPS - 1) this->fetch_next(place);
    }
    // Behind a segment, whose products are over.
    __device__ void end() const { refill(before, leave(before)); }
    // Rounds of a row block that ends above this warp's strip: lane 0 waits, for which all wait before they
    // read a tile again.
    __device__ void pass(int rounds) {
        for (; rounds; rounds--, advance())
            if (lane == 0) wait(), refill(at, leave(at));
    }

    // --- a round in steps: `rows_of` says where a step's rows are, `ask` whether they are, before its registers come;
    // `catch_up` when these have, while products of the step before go on, `enter` when those are over, if they
    // `follow` others, and `go_on` when the step's have begun

    template <int STEP>
    __device__ uint32_t rows_of() const { return rows(); }
    template <int STEP>
    __device__ bool ask() const { return STEP || is_there(); }
    template <int STEP>
    __device__ void catch_up(bool) const {}
    template <int STEP>
    __device__ void enter(bool is_there, bool follows) {
        if (STEP) return;
        left_before = follows ? leave(before) : 0;
        if (!is_there) wait();
    }
    template <int STEP>
    __device__ void go_on(bool) const {
        if (!STEP) refill(before, left_before);
    }
};

}  // namespace
}  // namespace lscd
