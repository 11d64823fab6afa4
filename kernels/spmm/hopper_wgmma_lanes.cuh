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

struct LaneStrips : LaneChunk, DenseRounds {
    static constexpr bool WHOLE_LINES = true, FAR = true, MORE_BLOCKS = false;
    template <class T, int BLOCK_N, int WARPS>
    using Warp = SlotsWarp<LaneStrips, T, BLOCK_N, WARPS>;

    __device__ static uint32_t far_steps(uint32_t steps) { return max(int(steps) - NEAR_STEPS, 0); }

    struct Header {
        uint32_t halves[2];  // of words, that the lane's groups of a step have
        uint32_t steps;      // of entries
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
        // Two values, and of each the row of the strip, one bit of 16.
        __device__ __forceinline__ void take(uint2 pair, uint32_t column, Address tile, uint32_t lane) {
            uint32_t two = pair.x, rows = pair.y >> lane / 4;
            this->a[0] = two & (rows & 0x00010001) * 0xffff;
            this->a[1] = two & (rows >> 8 & 0x00010001) * 0xffff;
            this->meet(tile, lane, column, DenseTile<BLOCK_N>::swizzle(column));
        }
    };
};

}  // namespace
}  // namespace lscd
