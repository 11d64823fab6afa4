// What a warp of the wgmma kernel has, whatever its format: its rings, and the sums of its strip.
//
// A FORMAT's Warp, which derives from it, multiplies chunks: chunk(address, turn, follows), turn 0 and 1 in turns; and
// ended(), behind the last one: its registers are read no more.
#pragma once
#include "../common/stages.cuh"
#include "hopper_wgmma_quarters.cuh"

namespace lscd {
namespace {

template <class FORMAT, class T, int BLOCK_N, int OF_WARPS>
struct WgmmaWarp {
    using Tile = DenseTile<BLOCK_N>;
    using Sums = float[BLOCK_N / 8][4];
    static constexpr int WARPS = OF_WARPS;

    const WgmmaProblem& p;
    int strip = threadIdx.x / 32, lane = keep(threadIdx.x % 32);
    DenseTiles<BLOCK_N, WARPS> dense;
    SparseRing<FORMAT, WARPS> sparse;
    Sums sum;

    __device__ WgmmaWarp(const WgmmaProblem& p, Address memory)
        : p(p), dense(p, memory, strip, lane), sparse(p, memory, Tile::BYTES, strip, lane) {}

    // In a build without `decode`: the copies alone.
    __device__ void only_copies(bool follows) {
        auto step = [&](auto nth) {
            bool is_there = dense.template ask<nth>();
            dense.template go_on<nth>(dense.template enter<nth>(is_there, follows));
        };
        step(std::integral_constant<int, 0>());
        if constexpr (Tile::OF_ROUND > 1)
            step(std::integral_constant<int, 1>()), step(std::integral_constant<int, 2>()),
                step(std::integral_constant<int, 3>());
    }
};

// Of formats without rows of zeros: a round is 256 columns of A, and B' is B.
struct DenseRounds {
    static constexpr int ROUND_COLS = DENSE_ROWS;
    __device__ static bool of_level(const WgmmaProblem&, int) { return false; }
    __device__ static int first_row(const WgmmaProblem&, int round) { return round * ROUND_COLS; }
    __host__ __device__ static constexpr int source(int k) { return k; }
    __device__ static bool is_zeros(int) { return false; }
};

}  // namespace
}  // namespace lscd
