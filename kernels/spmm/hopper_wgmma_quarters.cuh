// Tiles of B for blocks of more than 128 columns, of which shared memory has a round's at a time: in quarters, each
// with a place of its own. Who leaves one, says so to an mbarrier; the warp whose duty it is fetches the quarter of the
// next round, a step later, when the others have left it, too.
#pragma once
#include "hopper_wgmma_dense.cuh"

namespace lscd {
namespace {

constexpr int QUARTERS = 4;

template <class FORMAT, int BLOCK_N, int WARPS>
struct DenseQuarters : DenseCopies<FORMAT, BLOCK_N, WARPS> {
    using Base = DenseCopies<FORMAT, BLOCK_N, WARPS>;
    using Base::Base, Base::warp, Base::lane;
    static_assert(Base::Tile::OF_ROUND == QUARTERS && WARPS % QUARTERS == 0 && QUARTERS <= MOST_TILES);
    static constexpr int LATER = 1;  // steps, until others have most likely left a quarter

    uint32_t parity = 0;  // of the round

    __device__ Address tile() const { return Base::tile(0); }
    __device__ Address barrier(int quarter) const { return this->is_there_at(quarter * PLACE_BYTES); }
    __device__ Address has_left_at(int quarter) const { return barrier(quarter) + LEFT; }

    __device__ void make_barriers() const {
        if (!this->begins()) return;
        mbarrier_init(barrier(warp), 1);
        mbarrier_init(has_left_at(warp), WARPS);
    }
    __device__ void wait(int quarter) const { mbarrier_wait(barrier(quarter), parity); }
    __device__ void until_first_is_there() const { wait(0); }
    __device__ void advance() { parity ^= 1; }

    // This warp has read the quarter, and synchronised since.
    __device__ void leave(int quarter) const {
        if (lane == 0) mbarrier_arrive(has_left_at(quarter));
    }
    // The next one in its place, behind that of a round of such parity: each quarter is another warp's duty.
    __device__ void refill(int quarter, uint32_t of_round) const {
        if (warp != quarter * (WARPS / QUARTERS)) return;
        mbarrier_wait(has_left_at(quarter), of_round);
        if (lane == 0) this->fetch_next(quarter * PLACE_BYTES);
    }
    // Behind a segment, and behind `advance`.
    __device__ void end() const {
        leave(QUARTERS - 1);
#pragma unroll
        for (int quarter = QUARTERS - 1 - LATER; quarter < QUARTERS; quarter++) refill(quarter, parity ^ 1);
    }
    __device__ void pass(int rounds) {
        for (; rounds; rounds--, advance())
#pragma unroll 1
            for (int quarter = 0; quarter < QUARTERS; quarter++)
                wait(quarter), leave(quarter), refill(quarter, parity);
    }

    // --- a round in steps, as DenseRing's ---

    template <int STEP>
    __device__ bool ask() const { return mbarrier_is_over(barrier(STEP), parity); }
    template <int STEP>
    __device__ bool enter(bool is_there, bool follows) const {
        if (STEP || follows) leave((STEP + QUARTERS - 1) % QUARTERS);
        if (!is_there) wait(STEP);
        return STEP > LATER || follows;
    }
    template <int STEP>
    __device__ void go_on(bool refills) const {
        constexpr int BEFORE = STEP - 1 - LATER;
        if (refills) refill((BEFORE + QUARTERS) % QUARTERS, BEFORE < 0 ? parity ^ 1 : parity);
    }
};

template <class FORMAT, int BLOCK_N, int WARPS>
using DenseTiles = std::conditional_t<(FORMAT::template Tile<BLOCK_N>::OF_ROUND > 1),
                                      DenseQuarters<FORMAT, BLOCK_N, WARPS>, DenseRing<FORMAT, BLOCK_N, WARPS>>;

}  // namespace
}  // namespace lscd
