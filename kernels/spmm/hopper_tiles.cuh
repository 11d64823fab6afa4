// SpMM for more columns than a pass of hopper_wgmma has: A, strips of lanes' words or values or TCA-BME, becomes
// dense tiles in shared memory, which a pair of thread blocks (a cluster) decodes once for all its columns.
//
//   a row block of 128 rows, 64 columns of it a step -->
//                       thread block 0 of a pair            thread block 1
//   warps 0 to 7        tile x BLOCK_N columns of B         the same tile x as many of the next
//   warps 8 to 11       strips 0 to 3 of the tile           strips 4 to 7: decoded here, and copied
//   (12 to 15           of TCA-BME a second set; both take steps in turns)
//
// Here: what the parts of the kernel share. Where tiles, and chunks of A, are in shared memory; which step is
// in which place; who waits for whom.
#pragma once
#include "../common/cluster.cuh"
#include "hopper_wgmma_columns.cuh"

namespace lscd {
namespace {

// So many columns of B for each product of tiles, a multiple of eight, as many as tiles have or a few less.
struct TilesProblem : ColumnsProblem {
    int32_t product_columns;
};

constexpr int PAIR = 2;  // thread blocks of a cluster
constexpr int PAIR_ROWS = 128, PAIR_STRIPS = PAIR_ROWS / STRIP_ROWS, OWN_STRIPS = PAIR_STRIPS / PAIR;
constexpr int STEP_COLS = TENSOR_COLS;  // of A: 128 bytes of a tile's row
constexpr int MULTIPLYING_WARPS = PAIR_STRIPS;
constexpr int STRIP_BYTES = STRIP_ROWS * STEP_COLS * 2, A_TILE_BYTES = PAIR_STRIPS * STRIP_BYTES;

// Shared memory: mbarriers and counters, tiles of A, tiles of B, rings of chunks.
constexpr int MOST_PLACES = 5, A_IS_THERE = 0, A_IS_FREE = 8 * MOST_PLACES, B_IS_THERE = 2 * A_IS_FREE;
constexpr int HAVE_LEFT_B = 3 * A_IS_FREE, CHUNK_IS_THERE = 4 * A_IS_FREE;
constexpr int MOST_CHUNKS = 8, CHUNK_IS_FREE = CHUNK_IS_THERE + 8 * MOST_CHUNKS;
constexpr int A_TILES = 1024;
static_assert(CHUNK_IS_FREE + 8 * MOST_CHUNKS <= A_TILES);

// What depends on the columns of a thread block, on how many SETS of warps decode, in turns, and on whether rings
// are LARGE, of chunks that may be longer than 4 KB: these leave room for a tile less.
template <int BLOCK_N, int SETS, bool LARGE>
struct Tiles {
    static constexpr int TURNS = SETS, DECODING_WARPS = SETS * OWN_STRIPS;
    static constexpr int THREADS = 32 * (MULTIPLYING_WARPS + DECODING_WARPS);
    // wgmma has 256 columns at most; but 192 in a kernel of 512 threads, which begin with 128 registers each.
    static constexpr int PRODUCTS = ceil_div(BLOCK_N, SETS == 1 ? 256 : 192);
    static constexpr int ALL_COLUMNS = BLOCK_N, COLUMNS = BLOCK_N / PRODUCTS;  // of a tile of B
    static constexpr bool WIDE = BLOCK_N > 256;
    // Steps that shared memory has at once, of A and of B: of wide ones as many as fit beside chunks of 4 KB.
    static constexpr int A_PLACES = SETS == 2 || !WIDE ? 4 : BLOCK_N > 320 ? 3 : (BLOCK_N == 288 ? 5 : 4) - LARGE;
    static constexpr int B_PLACES = WIDE || LARGE && BLOCK_N > 192 ? 3 : 4;
    static_assert(A_PLACES <= MOST_PLACES && B_PLACES <= MOST_PLACES);
    // A warp that waits for a place must have waited for it the last time: it knows a phase by its parity.
    static_assert(A_PLACES % SETS == 0);
    static constexpr bool DECODES_AHEAD = WIDE;  // a quarter, before its place is free
    // A tile of B is as one of A, a column in place of a row.
    static constexpr int PRODUCT_BYTES = COLUMNS * STEP_COLS * 2, B_TILE_BYTES = PRODUCTS * PRODUCT_BYTES;
    static constexpr int B_TILES = A_TILES + A_PLACES * A_TILE_BYTES;
    static constexpr int CHUNKS = B_TILES + B_PLACES * B_TILE_BYTES;
    // Registers of a thread: they are given away before products begin.
    static constexpr int SUMS = BLOCK_N / 2;
    static constexpr int MULTIPLYING = SETS == 2     ? SUMS + (SUMS < 160 ? 48 : 32)
                                       : SUMS <= 160 ? 200
                                       : SUMS <= 176 ? 208
                                                     : 224;
    static constexpr int OF_ALL = 65536 / THREADS / 8 * 8 * (2 + SETS);  // a thread of each warpgroup
    static constexpr int DECODING = (OF_ALL - 2 * MULTIPLYING) / SETS;
    static constexpr bool FEW_TO_DECODE = DECODING < 64;
    static_assert(COLUMNS % 8 == 0 && DECODING % 8 == 0);
};

template <class FORMAT, int BLOCK_N>
using TilesOf = Tiles<BLOCK_N, FORMAT::SETS, FORMAT::LARGE_RINGS>;

// Of C, where a product of a thread block begins.
template <class Has>
__device__ inline int first_column(const TilesProblem& p, int pass, int rank, int product) {
    return ((pass * PAIR + rank) * Has::PRODUCTS + product) * p.product_columns;
}

__device__ inline int row_blocks(const WgmmaProblem& p) { return ceil_div(p.strips, PAIR_STRIPS); }

// A place of a step's tiles, by the step's number, and whether it has had an odd number of others.
template <int PLACES>
struct Place {
    uint32_t number, parity;
    __device__ explicit Place(uint32_t step) : number(step % PLACES), parity(step / PLACES % 2) {}
};

// Rounds of the segments of a pair, one after another; none is left: segment = end. Row blocks are numbered
// through all passes.
struct Rounds {
    const WgmmaProblem& p;
    int segment, end, row_block, pass, round, last, slot;

    __device__ explicit Rounds(const WgmmaProblem& p) : p(p) {
        int pair = blockIdx.x / PAIR;  // of all passes
        segment = __ldg(p.first_segment + pair), end = __ldg(p.first_segment + pair + 1);
        open();
    }
    __device__ bool more() const { return segment < end; }
    __device__ void next() {
        if (++round == last) segment++, open();
    }
    __device__ void skip(int rounds) {
        for (round += rounds; more() && round >= last;) {
            int beyond = round - last;
            segment++, open();
            round += beyond;
        }
    }
    __device__ void open() {
        if (!more()) return;
        uint4 s = __ldg(reinterpret_cast<const uint4*>(p.segments + segment));
        pass = s.x / row_blocks(p), row_block = s.x % row_blocks(p), round = s.y, last = s.z, slot = s.w;
    }
};

}  // namespace
}  // namespace lscd
