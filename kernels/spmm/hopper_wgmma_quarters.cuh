// Tiles of B for blocks of more than 128 columns, of which shared memory has a round's at a time, or less: in quarters.
// Who leaves one, says so to an mbarrier; the warp whose duty its place is fetches what comes next there, a step later,
// when the others have left it, too.
#pragma once
#include "hopper_wgmma_places.cuh"

namespace lscd {
namespace {

template <class FORMAT, int BLOCK_N, int WARPS>
struct DenseQuarters : DenseCopies<FORMAT, BLOCK_N, WARPS> {
    using Base = DenseCopies<FORMAT, BLOCK_N, WARPS>;
    using Base::warp, Base::lane;
    static_assert(Base::Tile::OF_ROUND == QUARTERS && WARPS % QUARTERS == 0 && QUARTERS <= lscd::MOST_TILES);
    // Of a quarter. Where it is one, that before the last is what others have most likely left when a step's products
    // have begun; where there are two, of half as many columns of A, the last one, when a step's registers are there.
    static constexpr int STEPS = Base::Tile::STEPS, LEFT_BY_ALL = STEPS == 1 ? 2 : 1;

    using Places = std::conditional_t<STEPS == 1, PlaceOfEach, PlacesInTurn>;
    static constexpr int LEAST_TILES = Places::LEAST, MOST_TILES = QUARTERS, APART = Places::APART;

    Places places{Base::p};

    using Base::Base;
    __device__ Address has_left_at(uint32_t place) const { return this->is_there_at(place) + LEFT; }

    __device__ void make_barriers() const {
        if (!this->begins()) return;
        mbarrier_init(this->is_there_at(warp * PLACE_BYTES), 1);
        mbarrier_init(has_left_at(warp * PLACE_BYTES), WARPS);
    }
    __device__ void wait(const Place& place) const { mbarrier_wait(this->is_there_at(place.at), place.parity); }
    __device__ void until_first_is_there() const { wait(places.template of<0>(0)); }
    __device__ void advance() { places.advance(); }

    // This warp has read the quarter, and synchronised since.
    __device__ void leave(const Place& place) const {
        if (lane == 0) mbarrier_arrive(has_left_at(place.at));
    }
    // The next one in its place: each place is another warp's duty.
    __device__ void refill(const Place& place) const {
        if (uint32_t(warp) != place.at / PLACE_BYTES * (WARPS / QUARTERS)) return;
        mbarrier_wait(has_left_at(place.at), place.parity);
        if (lane == 0) this->fetch_next(place.at);
    }
    // Behind a segment, and behind `advance`.
    __device__ void end() const {
        leave(places.template of<0>(1));
#pragma unroll
        for (int before = LEFT_BY_ALL; before > 0; before--) refill(places.template of<0>(before));
    }
    __device__ void pass(int rounds) {
#pragma unroll 1
        for (; rounds; rounds--, advance())
            for_steps<QUARTERS>([&](auto quarter) {
                Place place = places.template of<quarter>(0);
                wait(place), leave(place), refill(place), places.advance_quarter();
            });
    }

    // --- a round in steps, as DenseRing's ---

    template <int STEP>
    __device__ uint32_t rows_of() const { return Base::rows(places.template of<STEP / STEPS>(0).at); }
    template <int STEP>
    __device__ bool ask() const {
        if (STEP % STEPS) return true;
        Place place = places.template of<STEP / STEPS>(0);
        return mbarrier_is_over(this->is_there_at(place.at), place.parity);
    }
    template <int STEP>
    __device__ void catch_up(bool follows) const {
        if (STEPS > 1) refill_late<STEP>(follows);
    }
    template <int STEP>
    __device__ void enter(bool is_there, bool follows) const {
        if (STEP % STEPS) return;
        if (STEP || follows) leave(places.template of<STEP / STEPS>(1));
        if (!is_there) wait(places.template of<STEP / STEPS>(0));
    }
    template <int STEP>
    __device__ void go_on(bool follows) {
        if (STEPS == 1) refill_late<STEP>(follows);
        if (STEP % STEPS == STEPS - 1) places.advance_quarter();
    }

  private:
    template <int STEP>
    __device__ void refill_late(bool follows) const {
        if (STEP % STEPS == STEPS - 1 && (STEP / STEPS >= LEFT_BY_ALL || follows))
            refill(places.template of<STEP / STEPS>(LEFT_BY_ALL));
    }
};

template <class FORMAT, int BLOCK_N, int WARPS>
using DenseTiles = std::conditional_t<(FORMAT::template Tile<BLOCK_N>::OF_ROUND > 1),
                                      DenseQuarters<FORMAT, BLOCK_N, WARPS>, DenseRing<FORMAT, BLOCK_N, WARPS>>;

}  // namespace
}  // namespace lscd
