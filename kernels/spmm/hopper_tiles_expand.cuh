// B as hopper_tiles reads it, once for all row blocks: the tile of a step lies as in shared memory.
#pragma once
#include "hopper_eights.cuh"
#include "hopper_tiles.cuh"

namespace lscd {
namespace {

// A thread block has 32 columns of B in a round, of which a warp reads one at a time.
template <int BLOCK_N>
struct ExpandColumns {
    using Tile = ColumnTile<BLOCK_N>;
    static constexpr int COLUMNS = 32, WARPS = 8, THREADS = 32 * WARPS, TURNS = COLUMNS / WARPS;
    static constexpr int PARTS = BLOCK_N / COLUMNS, ROUND_COLS = STEP_COLS * STEPS_OF_ROUND;

    const WgmmaProblem& p;
    int round = blockIdx.x / PARTS, first = blockIdx.x % PARTS * COLUMNS, half = blockIdx.y;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    __device__ int column(int turn) const { return first + turn * WARPS + warp; }

    __device__ void run() const {
        DenseEights<TURNS> from(p, p.K, [&](int i) {
            return int2{half * BLOCK_N + column(i), round * ROUND_COLS + lane * 8};
        });
        uint4 eights[TURNS];
        wait_for_previous_grid();  // B is its, and the tiles may still be read
        from.load(eights);
        int step = round * STEPS_OF_ROUND + lane / 8;
        auto* to = static_cast<uint8_t*>(p.tiles) +
                   (int64_t(half) * p.rounds * STEPS_OF_ROUND + step) * Tile::BYTES;
#pragma unroll
        for (int i = 0; i < TURNS; i++)
            st_global(reinterpret_cast<uint4*>(to + Tile::offset(column(i), lane % 8)), eights[i]);
    }
};

template <int BLOCK_N>
__global__ void __launch_bounds__(ExpandColumns<BLOCK_N>::THREADS)
    expand_columns(const __grid_constant__ WgmmaProblem p) {
#if LSCD_SM90
    let_next_grid_begin();
    ExpandColumns<BLOCK_N>{p}.run();
#else
    __trap();
#endif
}

}  // namespace
}  // namespace lscd
