// B as wgmma reads it, once for all thread blocks: a producer in each of them would read B 144 times.
//
//   row of B'   0    1    2    3      4    5    6    7      8 ...
//   row of B    k    k+1  k+2  zeros  k+3  k+4  k+5  zeros  k+6 ...
#pragma once
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// B' of all rounds and passes. A block has eight columns of a round, a thread a row of B' there.
template <int BLOCK_N>
struct ExpandDense {
    using Tile = DenseTile<BLOCK_N>;

    const WgmmaProblem& p;
    int round = blockIdx.x / Tile::EIGHTS, eight = blockIdx.x % Tile::EIGHTS, pass = blockIdx.y;
    int row = threadIdx.x;

    __device__ uint32_t load(int k, int i) const {
        int column = eight * 8 + i, n = pass * BLOCK_N + column;
        bool inside = k < p.K && column < BLOCK_N && n < p.N;
        return inside ? ld_global(static_cast<const uint16_t*>(p.B) + n * p.ldb + k) : 0;
    }
    __device__ void run() const {
        int k = row % 4 == 3 ? p.K : p.row_of(round, row / 4 * 3 + row % 4);
        uint32_t half[8];
        wait_for_previous_grid();  // B is its, and the tiles may still be read
#pragma unroll
        for (int i = 0; i < 8; i++) half[i] = load(k, i);
        auto* to = static_cast<uint8_t*>(p.tiles) + (int64_t(pass) * p.rounds + round) * Tile::BYTES;
        st_global(reinterpret_cast<uint4*>(to + Tile::offset(row, eight)),
                  uint4{half[0] | half[1] << 16, half[2] | half[3] << 16, half[4] | half[5] << 16,
                        half[6] | half[7] << 16});
    }
};

template <int BLOCK_N>
__global__ void __launch_bounds__(DENSE_ROWS) expand_dense(const __grid_constant__ WgmmaProblem p) {
#if LSCD_SM90
    let_next_grid_begin();
    ExpandDense<BLOCK_N>{p}.run();
#else
    __trap();
#endif
}

}  // namespace
}  // namespace lscd
