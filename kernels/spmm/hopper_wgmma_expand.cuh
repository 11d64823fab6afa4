// B as wgmma reads it, once for all thread blocks: a producer in each of them would read B again
// for each row block.
//
//   row of B'          0    1    2    3      4    5    6    7      8 ...
//   of zero-row 2:4    k    k+1  k+2  zeros  k+3  k+4  k+5  zeros  k+6 ...     rows of B
//   of streams a lane  k    k+1  k+2  k+3    k+4  k+5  k+6  k+7    k+8 ...
//
// All wait for it, and its blocks stand where the grid before leaves room, several on one SM: so they are
// small.
#pragma once
#include "hopper_eights.cuh"
#include "hopper_wgmma_slots.cuh"

namespace lscd {
namespace {

// B' of all rounds and passes. A block has 16 columns of a round, in shared memory [k][n] before zeros
// come in between.
template <class FORMAT, int BLOCK_N>
struct ExpandDense {
    using Tile = DenseTile<BLOCK_N>;
    static constexpr int COLUMNS = 16, PARTS = Tile::WIDTH / COLUMNS, EIGHTS = COLUMNS / 8;
    static constexpr int ROUND_COLS = FORMAT::ROUND_COLS;
    static constexpr int THREADS = 128, WARPS = THREADS / 32, BYTES = ROUND_COLS * COLUMNS * 2;
    // Of which wide tiles ask for more than they need: so many that nine blocks share an SM, not sixteen.
    static constexpr int OF_NINE = 22 * 1024, SHARED_BYTES = BLOCK_N > 32 ? OF_NINE : BYTES;
    static_assert(Tile::WIDTH % COLUMNS == 0 && BYTES <= SHARED_BYTES);
    static constexpr int TURNS = ROUND_COLS / 32, OF_WARP = COLUMNS / WARPS;
    static constexpr int PIECES = TURNS * EIGHTS / WARPS;         // of a warp, 32 k x 8 n
    static constexpr int STORES = DENSE_ROWS * EIGHTS / THREADS;  // of a thread

    const WgmmaProblem& p;
    Address memory;
    int round = blockIdx.x / PARTS, first = blockIdx.x % PARTS * COLUMNS, pass = blockIdx.y;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    // Column n of the block in B; those that the product does not have are outside.
    __device__ int column(int n) const { return first + n < BLOCK_N ? pass * BLOCK_N + first + n : p.N; }
    // Row j of the round, columns 8 i to 8 i + 7: stmatrix never meets a bank twice.
    __device__ Address at(int j, int i) const {
        return memory + (j ^ j / 8 % 2 * 2) * COLUMNS * 2 + ((i ^ j / 16 % 2) << 4);
    }
    // The same, `rows` further on, a multiple of 16.
    __device__ static Address rows_on(Address at, int rows) {
        return (at + rows * COLUMNS * 2) ^ rows / 16 % 2 << 4;
    }

    // As HopperDense::ld_dense.
    __device__ void ld_rows(int k0) const {
        constexpr int STEP = WARPS / EIGHTS * 32;
        int eight = warp % EIGHTS, k = warp / EIGHTS * 32;
        DenseEights<PIECES, STEP> from(p, column(eight * 8 + lane / 4), k0 + k + lane % 4 * 8, p.K);
        uint4 eights[PIECES];
        wait_for_previous_grid();  // B is its, and the tiles may still be read
        from.load(eights);
        Address to = at(k + transposed_row(lane), eight);
#pragma unroll
        for (int i = 0; i < PIECES; i++) stmatrix_x4_trans(rows_on(to, i * STEP), eights[i]);
    }
    // Of level 1, whose rows are three apart in B: a warp has four columns, a lane every 32nd row.
    __device__ void ld_level(int k0) const {
        int64_t from[OF_WARP];
        int inside[OF_WARP];
#pragma unroll
        for (int c = 0; c < OF_WARP; c++) {
            int n = column(warp * OF_WARP + c), k = k0 + lane * LEVEL_STRIDE;
            from[c] = anew(n * p.ldb + k), inside[c] = anew(n < p.N ? p.K - k : 0);
        }
        uint32_t ones[OF_WARP][TURNS] = {};
        auto* B = static_cast<const uint16_t*>(p.B);
        wait_for_previous_grid();
#pragma unroll
        for (int c = 0; c < OF_WARP; c++)
#pragma unroll
            for (int i = 0; i < TURNS; i++)
                if (int k = i * 32 * LEVEL_STRIDE; k < inside[c]) ones[c][i] = ld_global(B + from[c] + k);
#pragma unroll
        for (int c = 0; c < OF_WARP; c += 2)
#pragma unroll
            for (int i = 0; i < TURNS; i++) {
                int n = warp * OF_WARP + c;
                st_shared(at(i * 32 + lane, n / 8) + n % 8 * 2, ones[c][i] | ones[c + 1][i] << 16);
            }
    }
    // A thread has every APART-th row of B'.
    __device__ void store() const {
        constexpr int APART = THREADS / EIGHTS, IN_B = FORMAT::source(APART);
        static_assert(APART % 4 == 0 && IN_B % 16 == 0);
        int row = threadIdx.x / EIGHTS, eight = threadIdx.x % EIGHTS;
        Address from = at(FORMAT::source(row), eight);
        int64_t tile = int64_t(pass) * p.rounds + round;
        auto* to = static_cast<uint8_t*>(p.tiles) + tile * Tile::BYTES + Tile::offset(row, first / 8 + eight);
#pragma unroll
        for (int i = 0; i < STORES; i++) {
            uint4 eights = ld_shared_v4(rows_on(from, i * IN_B));
            if (FORMAT::is_zeros(row)) eights = {0, 0, 0, 0};
            st_global(reinterpret_cast<uint4*>(to + i * APART * Tile::ROW_BYTES), eights);
        }
    }

    __device__ void run() const {
        int k0 = FORMAT::first_row(p, round);
        if (FORMAT::of_level(p, round)) ld_level(k0);
        else ld_rows(k0);
        __syncthreads();
        store();
    }
};

template <class FORMAT, int BLOCK_N>
__global__ void __launch_bounds__(ExpandDense<FORMAT, BLOCK_N>::THREADS)
    expand_dense(const __grid_constant__ WgmmaProblem p) {
#if LSCD_SM90
    extern __shared__ __align__(1024) unsigned char memory[];
    let_next_grid_begin();
    ExpandDense<FORMAT, BLOCK_N>{p, shared_address(memory)}.run();
#else
    __trap();
#endif
}

}  // namespace
}  // namespace lscd
