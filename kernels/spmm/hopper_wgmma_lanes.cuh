// 2:4 with a stream of words for each lane (kernels/cpu/encode/lane_24_strips.h): a chunk in shared memory, to
// A registers of wgmma.sp.
//
//   lane (g, t)   rows g and g + 8 of each tile, groups step * 8 + half * 4 + t, in the order of registers
//   bank l        lane l's words of step 0, and below them some lane's words of step 1: loads never
//                 conflict, whichever lanes have a word
//
// Two groups with one weight each may share a word. What a group has not is zeros in A, not in B': there are no
// rows of zeros, and weights may be infinite.
#pragma once
#include "../common/lane_24.cuh"
#include "hopper_wgmma_chunk.cuh"
#include "hopper_wgmma_entries.cuh"

namespace lscd {
namespace {

struct LaneStrips : LaneChunk, MeetsExpanded {
    static constexpr bool WHOLE_LINES = true, FAR = true, MORE_BLOCKS = false;
    template <int, int WARPS>
    using Ring = StagedRing<LaneStrips, WARPS>;
    template <class T, int BLOCK_N, int WARPS>
    using Warp = SlotsWarp<LaneStrips, T, BLOCK_N, WARPS>;

    // --- B': a round is 256 columns of A, and each row of B' one of B ---

    static constexpr int ROUND_COLS = DENSE_ROWS;
    __device__ static bool of_level(const WgmmaProblem&, int) { return false; }
    __device__ static int first_row(const WgmmaProblem&, int round) { return round * ROUND_COLS; }
    __host__ __device__ static constexpr int source(int k) { return k; }
    __device__ static bool is_zeros(int) { return false; }

    // --- a chunk ---

    struct Header {
        uint32_t halves[2];  // of words, that the lane's groups of a step have
        uint32_t steps;      // of entries, as stated
        uint32_t bank;       // of the lane's words of step 1
        Address word;        // a line above the lane's next one
    };

    __device__ __forceinline__ static Header header(Address at, int lane, const uint32_t (&)[TILES]) {
        Header h;
#pragma unroll
        for (int step = 0; step < 2; step++)
            h.halves[step] = ld_shared(at + HALVES + step * HALVES_OF_STEP + lane * 4);
        uint32_t stated = ld_shared(at + HEADER);
        h.steps = __shfl_sync(~0u, stated >> 16, 0);
        h.bank = ld_shared_u8(at + BANKS + lane);
        h.word = at + (stated & 0xffff) - LINE_BYTES + lane * 4;
        return h;
    }

    // A registers of both steps: those of one are loaded while products of the other run.
    struct Values {
        uint32_t of_step[2][TILES][4] = {};

        __device__ explicit Values(int) {}
        __device__ const uint32_t (&a(int step, int tile) const)[4] { return of_step[step][tile]; }
        // extract: all lanes load, those without a weight too: they read the word of the group before again,
        // or what stands above the first line, and have no half of it.
        __device__ __forceinline__ void prepare(Header& h, int step) {
#pragma unroll
            for (int i = 0; i < 4 * TILES; i++) {
                uint32_t own = own_halves(h.halves[step], i);
                h.word = next_word(h.word, own);
                of_step[step][i / 4][i % 4] =
                    left_out(Stage::extract) ? wgmma_operand(own) : ld_shared(h.word) & own;
            }
            if (step == 0) h.word = __shfl_sync(~0u, h.word, h.bank);  // behind the words that are there
        }
        // Nothing is left to load; the products of the other step have been waited for.
        __device__ __forceinline__ void finish(const Header&, int step) const { used(1 - step); }
        __device__ __forceinline__ void used(int step) const {
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) wgmma_used(of_step[step][tile]);
        }
    };

    // What a lane reads of a step of entries, and of four.
    struct Places {
        static constexpr int EIGHT_BYTES = DenseTile<8>::EIGHT_BYTES, EIGHTS_STEP = 64;
        static_assert(EIGHT_BYTES % EIGHTS_STEP == 0 && 3 * EIGHTS_STEP < 256 && 3 * STEP_BYTES + COLUMNS_AT + 7 < 256);
        uint32_t lane;
        FourNumbers in_step, in_four;

        // Columns of A are a step's places 0 2 1 3 4 6 5 7: so two pairs of values, one below the other, are what the
        // first two and the last two of four columns have.
        __device__ explicit Places(uint32_t lane)
            : lane(lane),
              in_step(7 - lane / 4, lane % 4 * PAIR_BYTES, COLUMNS_AT + lane % 8, lane / 4 * 4),
              in_four(lane / 8 * EIGHTS_STEP,
                      lane / 8 * STEP_BYTES + COLUMNS_AT + (lane & 4 | lane << 1 & 2 | lane >> 1 & 1),
                      lane % 4 / 2 * STEP_BYTES + lane % 2 * (2 * PAIR_BYTES), lane % 2) {}

        // In a tile of B'; in a step; behind it, in the metadata of four.
        __device__ Address eight(Address tile) const {
            return in_four.added_to<0, EIGHT_BYTES / EIGHTS_STEP>(tile);
        }
        __device__ Address pair(Address step) const { return in_step.added_to<1>(step); }
        __device__ Address column(Address step) const { return in_step.added_to<2>(step); }
        __device__ Address metadata(Address four) const { return in_step.added_to<3>(four); }
        // In four steps.
        __device__ Address column_of_four(Address steps) const { return in_four.added_to<1>(steps); }
        __device__ Address pairs_of_four(Address steps) const { return in_four.added_to<2>(steps); }
        // Of two lanes' metadata, a bit apart: its own, in even bits.
        __device__ uint32_t own_metadata(uint32_t bits) const { return bits >> (in_four.all >> 24); }
        // Of two values' rows of the strip, one bit of 16 each: the halves, as ones, that are in the lane's row of a
        // half. A shift takes five bits.
        __device__ uint32_t own(uint32_t rows, int half) const {
            return prmt(__funnelshift_l(0, rows, in_step.all), 0, half ? 0xbb99 : 0xaa88);
        }
    };

    template <class T, int BLOCK_N>
    struct Entries : EntryStep<T, BLOCK_N> {
        __device__ __forceinline__ void load(Address step, Address tile, const Places& places) {
            uint2 pair = ld_shared_v2(places.pair(step));
            take(pair, ld_shared_u8(places.column(step)), tile, places);
        }
        __device__ __forceinline__ void load_far(const uint8_t* step, Address tile, const Places& places) {
            uint32_t lane = anew(int(places.lane));
            uint2 pair = __ldg(reinterpret_cast<const uint2*>(step) + lane % 4);
            take(pair, __ldg(step + COLUMNS_AT + lane % 8), tile, places);
        }
        __device__ __forceinline__ void take(uint2 pair, uint32_t column, Address tile, const Places& places) {
            for (int half = 0; half < 2; half++) this->a[half] = pair.x & places.own(pair.y, half);
            this->meet(places.eight(tile), column);
        }
    };

    template <class T, int BLOCK_N>
    struct Fours : FourSteps<T, BLOCK_N> {
        __device__ __forceinline__ void load(Address steps, Address metadata, Address tile, const Places& places) {
            uint32_t column = ld_shared_u8(places.column_of_four(steps));
            this->metadata = places.own_metadata(ld_shared(places.metadata(metadata))) & 0x55555555u | 0x88888888u;
            Address pairs = places.pairs_of_four(steps);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint2 first = ld_shared_v2(pairs + i * (2 * STEP_BYTES));
                uint2 second = ld_shared_v2(pairs + i * (2 * STEP_BYTES) + PAIR_BYTES);
#pragma unroll
                for (int half = 0; half < 2; half++)
                    this->a[2 * i + half] =
                        first.x & places.own(first.y, half) | second.x & places.own(second.y, half);
            }
            this->meet(tile, column);
        }
    };
};

}  // namespace
}  // namespace lscd
