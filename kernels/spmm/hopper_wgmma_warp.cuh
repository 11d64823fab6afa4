// What a warp of the wgmma kernel has, whatever its format: its rings, and the sums of its strip.
//
// A FORMAT's Warp, which derives from it, multiplies chunks: chunk(address, turn, follows), turn 0 and 1 in turns; and
// ended(), behind the last one: its registers are read no more.
#pragma once
#include "../common/stages.cuh"
#include "hopper_wgmma_ends.cuh"
#include "hopper_wgmma_quarters.cuh"
#include "hopper_wgmma_stages.cuh"

namespace lscd {
namespace {

template <class FORMAT, class T, int BLOCK_N, int OF_WARPS>
struct WgmmaWarp {
    using Problem = typename FORMAT::Problem;
    using Tile = typename FORMAT::template Tile<BLOCK_N>;
    using Sums = float[BLOCK_N / 8][4];
    static constexpr int WARPS = OF_WARPS;

    const Problem& p;
    int strip = threadIdx.x / 32, lane = keep(threadIdx.x % 32);
    using Dense = DenseTiles<FORMAT, BLOCK_N, WARPS>;
    Dense dense;
    typename FORMAT::template Ring<BLOCK_N, WARPS> sparse;
    Sums sum;

    __device__ WgmmaWarp(const Problem& p, Address memory)
        : p(p), dense(p, memory, strip, lane), sparse(p, memory, Tile::BYTES, strip, lane) {}

    // In a build without `decode`: the copies alone.
    __device__ void only_copies(bool follows) {
        auto step = [&](auto nth) {
            bool is_there = dense.template ask<nth>();
            dense.template catch_up<nth>(follows);
            dense.template enter<nth>(is_there, follows);
            dense.template go_on<nth>(follows);
        };
        for_steps<Dense::STEPS * Tile::OF_ROUND>(step);
    }
};

// Of formats whose products meet B' (hopper_wgmma_expand.cuh).
struct MeetsExpanded {
    static constexpr int COLUMNS_OF_FEW = 128;
    using Problem = WgmmaProblem;
    template <int BLOCK_N>
    using Tile = DenseTile<BLOCK_N>;
};

}  // namespace
}  // namespace lscd
