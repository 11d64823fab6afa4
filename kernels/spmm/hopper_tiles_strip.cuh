// What decoding warps of all formats have in common: a strip of each tile of A, when its place is free, and its
// way to the other thread block of the pair.
#pragma once
#include "hopper_tiles.cuh"

namespace lscd {
namespace {

template <class Has>
struct StripWarp {
    const WgmmaProblem& p;
    Address memory, others_memory;
    uint32_t rank = rank_in_cluster();
    int warp = threadIdx.x / 32 - MULTIPLYING_WARPS, lane = threadIdx.x % 32;

    __device__ StripWarp(const WgmmaProblem& p, Address memory)
        : p(p), memory(memory), others_memory(at_rank(memory, rank_in_cluster() ^ 1)) {}

    __device__ int strip() const { return rank * OWN_STRIPS + warp % OWN_STRIPS; }

    // Where a step's strip goes, from the beginning of memory, and the mbarriers of that place.
    struct Target {
        int there, free, at;
        uint32_t parity;
    };
    __device__ __forceinline__ Target target(uint32_t step) const {
        Place<Has::A_PLACES> place(step);
        int at = A_TILES + place.number * A_TILE_BYTES + strip() * STRIP_BYTES;
        if (Has::FEW_TO_DECODE) at = anew(at);  // no register to keep it for each step of a round
        return {A_IS_THERE + 8 * int(place.number), A_IS_FREE + 8 * int(place.number), at, place.parity};
    }
    // Until both blocks have left what was there.
    __device__ __forceinline__ void wait_for(const Target& to) const {
        mbarrier_wait(memory + to.free, to.parity ^ 1);
    }
    // What all lanes have stored, to the other block; as many bytes come from there.
    __device__ __forceinline__ void send(const Target& to) const {
        async_proxy_fence();
        __syncwarp();
        warp_bulk_copy_at(others_memory + to.at, memory + to.at, STRIP_BYTES, others_memory + to.there);
        if (lane == 0) mbarrier_arrive_expect(memory + to.there, STRIP_BYTES);
    }
};

}  // namespace
}  // namespace lscd
