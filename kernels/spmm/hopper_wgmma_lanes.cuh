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

    template <class T, int BLOCK_N>
    struct Entries : EntryStep<T, BLOCK_N> {
        __device__ __forceinline__ void load(Address entries, Address tile, int lane) {
            uint32_t own = anew(lane);
            uint2 pair = ld_shared_v2(entries + own % 4 * PAIR_BYTES);
            take(pair, ld_shared_u8(entries + COLUMNS_AT + own % 8), tile, own);
        }
        // Of a far step.
        __device__ __forceinline__ void load(const uint8_t* step, Address tile, int lane) {
            uint2 pair = __ldg(reinterpret_cast<const uint2*>(step) + lane % 4);
            take(pair, __ldg(step + COLUMNS_AT + lane % 8), tile, lane);
        }
        __device__ __forceinline__ void take(uint2 pair, uint32_t column, Address tile, uint32_t lane) {
            for (int half = 0; half < 2; half++) this->a[half] = pair.x & of_row(pair.y, lane, half);
            this->meet(tile, lane, column, DenseTile<BLOCK_N>::swizzle(column));
        }
    };
    // Of two values' rows of the strip, one bit of 16 each: the halves, as ones, that are in the lane's row of a half.
    __device__ __forceinline__ static uint32_t of_row(uint32_t rows, uint32_t lane, int half) {
        return prmt(rows << (7 - lane / 4), 0, half ? 0xbb99 : 0xaa88);
    }

    // Four steps: columns of A are a step's places 0 2 1 3 4 6 5 7, so that two pairs of values, one below the other,
    // are what the first two and the last two of four columns have.
    template <class T, int BLOCK_N>
    struct Fours : FourSteps<T, BLOCK_N> {
        __device__ __forceinline__ void load(Address chunk, uint32_t stated, uint32_t nth, Address tile, int lane) {
            uint32_t own = anew(lane), t = own % 4;
            Address steps = chunk + ENTRIES + (single_steps(stated) + nth * FOUR) * STEP_BYTES;
            Address metadata = chunk + ENTRIES + near_steps(stated) * STEP_BYTES + nth * FOUR_BYTES;
            uint32_t place = own & 4 | own << 1 & 2 | own >> 1 & 1;
            uint32_t column = ld_shared_u8(steps + COLUMNS_AT + own / 8 * STEP_BYTES + place);
            this->metadata = ld_shared(metadata + own / 4 * 4) >> own % 2 & 0x55555555u | 0x88888888u;
            Address pairs = steps + t / 2 * STEP_BYTES + t % 2 * (2 * PAIR_BYTES);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint2 first = ld_shared_v2(pairs + i * (2 * STEP_BYTES));
                uint2 second = ld_shared_v2(pairs + i * (2 * STEP_BYTES) + PAIR_BYTES);
#pragma unroll
                for (int half = 0; half < 2; half++)
                    this->a[2 * i + half] =
                        first.x & of_row(first.y, own, half) | second.x & of_row(second.y, own, half);
            }
            this->meet(tile, column);
        }
    };
};

}  // namespace
}  // namespace lscd
