// SpMM on strips: any mask on wgmma of sm_90, for 17 columns and more, on bitmaps and codes for any number.
//
//   expand_dense   B -> B', the tiles that wgmma reads (hopper_wgmma_expand.cuh), unless these are B itself
//                  (hopper_wgmma_columns.cuh)
//   hopper_wgmma   the product: a thread block has 256, 192 or 128 rows, and BLOCK_N columns of C, at a time
//   add_slots      row blocks that several thread blocks have parts of, if no owner adds these up
//                  (hopper_wgmma_slots.cuh, backends/row_blocks.py)
//
//   a row block           a round, 192 or 256 columns, and its tile of B' (of B, or four) -->
//   warpgroup 0  warp 0   [ chunk ][ chunk ]...   strip of 16 rows: its chunks lie behind each other
//                warp 1   [ chunk ][ chunk ]...
//                ...      shares of equal costs: a stretch of rounds, of one row block or several
//
//   global   data, a strip a warp                          B', a tile a round (B, one or four)
//              | ld_sparse (bulk copies)                     | ld_dense (bulk or tensor copies)
//   shared   metadata, streams             entries         B' [n/8][k'][8] (B [n][k])
//              | extract: gather             |               |
//   tensor   A registers --- wgmma.sp <------(---------------+
//              metadata selects rows of B'   +-- mma.sync ---+   weights that found no slot
//
// FORMAT says how a chunk becomes A registers: ZeroRowStrips (hopper_wgmma_zero_row.cuh), LaneStrips
// (hopper_wgmma_lanes.cuh) or BitmapStrips and CodedStrips (hopper_wgmma_streams.cuh), whose products are dense,
// without metadata.
#pragma once
#include "hopper_wgmma_slots.cuh"
#include "hopper_wgmma_warp.cuh"

namespace lscd {
namespace {

template <class FORMAT, class T, int BLOCK_N, int WARPS>
struct WgmmaKernel : FORMAT::template Warp<T, BLOCK_N, WARPS> {
    using Warp = typename FORMAT::template Warp<T, BLOCK_N, WARPS>;
    using Partial = PartialSums<BLOCK_N, WARPS>;
    using Warp::Warp;
    using Warp::p, Warp::strip, Warp::lane, Warp::dense, Warp::sparse, Warp::sum;
    using Warp::chunk, Warp::only_copies, Warp::ended;

    // --- a segment ---

    __device__ void multiply(int rounds) {
        bool follows = false;
        begin_sums();
        auto next = [&](auto turn) {
            sparse.wait();
            if (left_out(Stage::decode)) only_copies(follows);
            else chunk(sparse.chunk(), turn, follows);
            follows = true;
            dense.advance();
            sparse.refill();
            return --rounds == 0;
        };
        // Two copies of the loop: the compiler does not keep registers that products of the chunk before still read.
#pragma unroll 1
        while (!next(std::integral_constant<int, 0>()) && !next(std::integral_constant<int, 1>())) {}
        wgmma_wait<0>();
        ended();
        dense.end();
    }

    __device__ void begin_sums() {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 8; i++)
#pragma unroll
            for (int r = 0; r < 4; r++) sum[i][r] = 0;
    }

    // A segment's sums.
    __device__ void store(int row_block, int slot) {
        if (slot >= 0) return store_part(slot);
        if (slot < -1) add_parts(-2 - slot);
        store_rounded(row_block);
    }
    __device__ void store_part(int slot) const {
        Partial to(p, blockIdx.y, slot);
        int lane = anew(this->lane);
#pragma unroll
        for (int i = 0; i < BLOCK_N / 8; i++)
            st_global(to.at(i, strip * 32 + lane), quad(sum[i]), evict_last());
        if (p.adds_slots()) return;
        __syncwarp();
        if (lane == 0) set_flag(to.flag(strip));
    }
    // What other thread blocks have of the row block, in the order of their slots. They are earlier ones, so
    // that they run when this one waits for them.
    __device__ void add_parts(int shared) {
        uint4 rows = __ldg(reinterpret_cast<const uint4*>(p.shared + shared));
#pragma unroll 1
        for (int slot = rows.y; slot < int(rows.z); slot++) {
            Partial from(p, blockIdx.y, slot);
            wait_for_flag(from.flag(strip));
            __syncwarp();
            if (lane == 0) unset_flag(from.flag(strip));
#pragma unroll
            for (int i = 0; i < BLOCK_N / 8; i++)
                add_quad(sum[i], ld_global(from.at(i, strip * 32 + anew(lane))));
        }
    }
    __device__ void store_rounded(int row_block) const {
        int lane = anew(this->lane), n = blockIdx.y * BLOCK_N + lane % 4 * 2;
        RoundedSums<T> to(p, row_block * Partial::ROWS + strip * STRIP_ROWS + lane / 4, n);
#pragma unroll
        for (int i = 0; i < BLOCK_N / 8; i++) to.store(sum[i]), to.next_eight();
    }

    // --- a thread block ---

    // One lane makes its warp's; then all may use them.
    __device__ void begin_mbarriers() const {
        if (lane == 0) {
            dense.make_barriers(), sparse.make_barriers();
            mbarrier_init_fence();
        }
        __syncwarp();
    }

    // In all thread blocks first what the first round needs, a chunk and a tile: all tiles would be in its way.
    __device__ void run() {
        LaneNumbers<WarpStart> record(p.starts + blockIdx.x * WARPS + strip, lane);
        begin_mbarriers();
        sparse.begin(record);
        sparse.fill(0, 1);
        wait_for_previous_grid();  // weights can be read before; B, B' and C are others' until now
        dense.fill(record, 0, 1);
        sparse.fill(1, STRIP_STAGES);
        int end = record[WarpStart::END_SEGMENT];
        if (threadIdx.x == 0) st_shared(dense.memory + END_OF_SEGMENTS, end);
        __syncthreads();
        if (record[WarpStart::SEGMENT] == end) return;
        dense.until_first_is_there();
        dense.fill(record, 1, p.tile_slots);
        sparse.filled(record);
        multiply_all(record);
    }

    // The segments of the thread block, of which the first one is known. Registers are for the loop over
    // chunks: what is needed behind it waits in shared memory.
    __device__ void multiply_all(const LaneNumbers<WarpStart>& record) {
        int segment = record[WarpStart::SEGMENT], end = record[WarpStart::END_SEGMENT];
        int row_block = record[WarpStart::ROW_BLOCK], rounds = record[WarpStart::ROUNDS];
        int slot = record[WarpStart::SLOT];
        while (true) {
            if (row_block * WARPS + strip < p.strips) {
                keep_number(0, segment), keep_number(1, row_block), keep_number(2, slot);
                multiply(rounds);
                segment = kept_number(0), row_block = kept_number(1), slot = kept_number(2);
                end = ld_shared(dense.memory + END_OF_SEGMENTS);
                if (segment + 1 == end) let_next_grid_begin();
                store(row_block, slot);
            } else dense.pass(rounds);
            if (++segment == end) return;
            uint4 s = __ldg(reinterpret_cast<const uint4*>(p.segments + segment));
            row_block = s.x, rounds = s.z - s.y, slot = s.w;
        }
    }
    __device__ Address kept(int i) const { return kept_at(dense.memory, strip, i); }
    __device__ void keep_number(int i, int number) const {
        if (lane == 0) st_shared(kept(i), number);
    }
    __device__ int kept_number(int i) const { return __shfl_sync(~0u, lane ? 0 : ld_shared(kept(i)), 0); }
};

template <class FORMAT, class T, int BLOCK_N, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, 1)
    hopper_wgmma(const __grid_constant__ typename FORMAT::Problem p) {
#if LSCD_SM90
    extern __shared__ __align__(1024) unsigned char memory[];
    WgmmaKernel<FORMAT, T, BLOCK_N, WARPS>(p, shared_address(memory)).run();
#else
    __trap();
#endif
}

}  // namespace
}  // namespace lscd
