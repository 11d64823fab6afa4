// SpMM on strips with wgmma, for sm_90: one product, and what its kernels share. How the bytes of A lie say
// kernels/cpu/encode/zero_row_24_strips.h, lane_24_strips.h, bitmap_strips.h and coded_strips.h; what differs between
// these is in ZeroRowStrips, LaneStrips, BitmapStrips and CodedStrips, which templates below take as FORMAT.
#pragma once
#include "../common/wgmma.cuh"
#include "hopper.cuh"

namespace lscd {

constexpr int STRIP_ROWS = 16;   // of a chunk
constexpr int DENSE_ROWS = 256;  // of B', or of B, in a round

// Warps of a thread block: as many as have registers for their sums, twelve for as many columns as FORMAT says; or, of
// narrow ones of bitmaps and codes, FEW_WARPS, where these are faster (backends/strip_layouts.py).
constexpr int MOST_WARPS = 16, FEW_WARPS = 12, LEAST_WARPS = 8;
template <class FORMAT>
constexpr int wgmma_warps(int block_n) {
    return block_n <= 64 ? MOST_WARPS : block_n <= FORMAT::COLUMNS_OF_FEW ? FEW_WARPS : LEAST_WARPS;
}

// step(0) to step(COUNT - 1), of constants.
template <int COUNT, class Step>
__device__ __forceinline__ void for_steps(Step step) {
    static_assert(COUNT > 0);
    if constexpr (COUNT > 1) for_steps<COUNT - 1>(step);
    step(std::integral_constant<int, COUNT - 1>());
}

// Rounds [first, last) of a row block, which is what a thread block works on, a strip a warp; by tiles these are
// numbered through all passes. Its sums go to partial[slot]; or to C, where `slot` is -1; or, where it is less, to C
// with those of SharedRows number -2 - slot.
struct __align__(16) Segment {
    int32_t row_block, first, last, slot;
};

// Copies of a warp under way, at most: more keep memory no busier (backends/warp_starts.py has it, too).
constexpr int STRIP_STAGES = 2;

// What a warp must know to begin: copies of its ring, [starts[i], ends[i]) in 16 bytes, none where both are
// 0; the chunks behind them (Walk), of which the first is [start, end); of the first warps, the tile of B
// that each begins with, and what comes in its place (Walks); segments [segment, end_segment) of the
// thread block, and the first of them.
struct __align__(128) WarpStart {
    int32_t starts[STRIP_STAGES], ends[STRIP_STAGES], chunks[3], start, end, tile[3], next_tile[3];
    int32_t segment, end_segment, row_block, rounds, slot, unused[12];

    // Places of these numbers.
    static constexpr int STARTS = 0, ENDS = STARTS + STRIP_STAGES, CHUNKS = ENDS + STRIP_STAGES;
    static constexpr int START = CHUNKS + 3, END = START + 1, TILE = END + 1, NEXT_TILE = TILE + 3;
    static constexpr int SEGMENT = NEXT_TILE + 3, END_SEGMENT = SEGMENT + 1;
    static constexpr int ROW_BLOCK = END_SEGMENT + 1, ROUNDS = ROW_BLOCK + 1, SLOT = ROUNDS + 1;
};

// A row block that several thread blocks have parts of: partial[first] to partial[last - 1]. Either all of
// them are there, for add_slots, or all but the owner's, who adds them to its own.
struct __align__(16) SharedRows {
    int32_t row_block, first, last, unused;
};

// A: data, chunk_start (in 16 bytes), or what launchers say; partial [passes][slots] (PartialSums), where
// a pass is BLOCK_N columns of C. By tiles (hopper_tiles.cuh) `blocks` are pairs, of all passes, each of which
// has 2 BLOCK_N columns at most; partial [2][slots]; there are no `starts`.
struct WgmmaProblem : Problem {
    int32_t rounds, strips, levels;  // of A; the last of zero-row 2:4
    int32_t block_n, blocks;         // thread blocks of a pass
    int32_t warps;                   // of each; by tiles, 0
    int32_t slots, added_rows;       // row blocks that add_slots adds; 0 where these have owners
    int32_t ring_bytes;              // of each warp's ring of chunks; by tiles, 0
    int32_t stages, stage_bytes;     // of it, if it is in stages; the latter has room for any chunk; by tiles of
                                     // TCA-BME, of the block's ring
    int32_t tile_slots;              // tiles of B' or B in shared memory; by tiles, of A
    const Segment* segments;
    const int32_t* first_segment;    // [blocks + 1]: of each thread block
    const SharedRows* shared;
    void* tiles;                     // B' [passes][rounds][DenseTile], of formats whose products meet it
    const WarpStart* starts;         // [blocks][warps]
    int32_t relu;                    // whether negative sums become 0
    const void* bias;                // [M], added to sums before that; null: none

    __host__ __device__ const uint8_t* data() const { return static_cast<const uint8_t*>(A[0]); }
    __host__ __device__ const int32_t* chunk_start() const { return static_cast<const int32_t*>(A[1]); }
    __host__ __device__ bool adds_slots() const { return added_rows != 0; }
    __host__ __device__ int passes() const { return ceil_div(N, block_n); }
};

// The tile of B' that a round meets, eight columns behind the others: [n / 8][k'][8]. So a row has one address for all
// of them, and constants. Its columns are a multiple of 16, since a block of the expansion has so many.
template <int BLOCK_N, int ROWS = DENSE_ROWS>
struct DenseTile {
    static constexpr int OF_ROUND = 1;
    static constexpr int WIDTH = round_up(BLOCK_N, 16), ROW_BYTES = 16;
    static constexpr int EIGHT_BYTES = ROWS * ROW_BYTES, BYTES = WIDTH / 8 * EIGHT_BYTES;
    // Of row k, columns 8 i to 8 i + 7.
    __host__ __device__ static constexpr int offset(int k, int i) { return i * EIGHT_BYTES + k * ROW_BYTES; }
    // The nth one of a pass, by a bulk copy.
    __device__ static void ld_dense(const WgmmaProblem& p, int pass, int nth, Address to, Address barrier) {
        auto* from = static_cast<const uint8_t*>(p.tiles) + (int64_t(pass) * p.rounds + nth) * BYTES;
        bulk_copy(to, from, BYTES, barrier, evict_last());
    }
    __device__ static uint64_t descriptor(Address at) { return n_major(at, EIGHT_BYTES); }
    // How many 16 bytes row k is further on, a multiple of 8.
    __device__ static constexpr uint32_t further(int k) { return k * ROW_BYTES / 16; }
};

cudaError_t launch_wgmma(const WgmmaProblem& p, cudaStream_t stream);        // A: zero-row 2:4
cudaError_t launch_wgmma_lanes(const WgmmaProblem& p, cudaStream_t stream);  // 2:4 with a stream a lane
cudaError_t launch_wgmma_bitmap(const WgmmaProblem& p, cudaStream_t stream);  // a bitmap and a stream a lane
cudaError_t launch_wgmma_coded(const WgmmaProblem& p, cudaStream_t stream);  // codes of pairs and words a lane
cudaError_t launch_tiles_bitmap(const WgmmaProblem& p, cudaStream_t stream);  // bitmaps: hopper_tiles.cuh
cudaError_t launch_tiles_coded(const WgmmaProblem& p, cudaStream_t stream);  // codes of pairs, the same
cudaError_t launch_tiles_lanes(const WgmmaProblem& p, cudaStream_t stream);  // 2:4 with a stream a lane, the same
cudaError_t launch_tiles_tca_bme(const WgmmaProblem& p, cudaStream_t stream);  // A: TCA-BME, the same

// Whether wgmma.sp selects as zero-row 2:4 needs it, and reads B' as both formats do: see
// hopper_wgmma_select.cu.
cudaError_t launch_wgmma_select(int32_t* wrong, cudaStream_t stream);

}  // namespace lscd
