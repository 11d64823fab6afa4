// Where quarters of a round's tile of B are in shared memory: in a place each, or, where blocks are so wide that four
// leave no room for rings of chunks, one after another in a ring of three or four.
#pragma once
#include "hopper_wgmma_dense.cuh"

namespace lscd {
namespace {

constexpr int QUARTERS = 4;

// `PLACE_BYTES` behind the place before, and the parity that a quarter has there.
struct Place {
    uint32_t at, parity;
};

// Both: LEAST places; APART, parts of a round that do not lie behind each other.

// Four: of quarter QUARTER of a round, or so many before it.
struct PlaceOfEach {
    static constexpr int LEAST = QUARTERS, APART = 1;
    uint32_t parity = 0;  // of the round

    __device__ explicit PlaceOfEach(const WgmmaProblem&) {}
    template <int QUARTER>
    __device__ Place of(int before) const {
        int quarter = QUARTER - before;
        return {uint32_t((quarter + QUARTERS) % QUARTERS) * PLACE_BYTES, quarter < 0 ? parity ^ 1 : parity};
    }
    __device__ void advance() { parity ^= 1; }
    __device__ void advance_quarter() {}
};

// As many as the launch says: of the quarter that is read next, whichever that is, or so many before it, fewer than
// there are places.
struct PlacesInTurn {
    static constexpr int LEAST = QUARTERS - 1, APART = QUARTERS;
    const WgmmaProblem& p;
    Place next = {0, 0};

    __device__ explicit PlacesInTurn(const WgmmaProblem& p) : p(p) {}
    __device__ uint32_t end() const { return uint32_t(p.tile_slots) * PLACE_BYTES; }
    template <int>
    __device__ Place of(int before) const {
        uint32_t back = before * PLACE_BYTES;
        if (next.at >= back) return {next.at - back, next.parity};
        return {next.at + end() - back, next.parity ^ 1};
    }
    __device__ void advance() {}
    __device__ void advance_quarter() {
        next.at += PLACE_BYTES;
        if (next.at == end()) next = {0, next.parity ^ 1};
    }
};

}  // namespace
}  // namespace lscd
