// Zero-row 2:4 in strips (kernels/cpu/encode/zero_row_24_strips.h): which rows of B a round meets, and a chunk
// in shared memory, to A registers of wgmma.sp.
#pragma once
#include "hopper_chunk.cuh"
#include "hopper_wgmma_chunk.cuh"
#include "hopper_wgmma_entries.cuh"

namespace lscd {
namespace {

struct ZeroRowStrips : MeetsExpanded {
    static constexpr int ROUND_COLS = 192;                   // four tiles of 16 x 48, side by side
    static constexpr int ENTRIES = 576, STEP_BYTES = 32;     // of a chunk before its entries; of eight entries
    // Whether chunks are whole lines; have fours of steps and far ones; have thread blocks of other sizes, too.
    static constexpr bool WHOLE_LINES = false, FAR = false, MORE_BLOCKS = false;
    template <int, int WARPS>
    using Ring = StagedRing<ZeroRowStrips, WARPS>;
    template <class T, int BLOCK_N, int WARPS>
    using Warp = SlotsWarp<ZeroRowStrips, T, BLOCK_N, WARPS>;

    // --- B' ---

    __device__ static bool of_level(const WgmmaProblem& p, int round) {
        return p.levels && (round % 4 == 3 || round == p.rounds - 1);
    }
    // Row of B that the first column of a round meets.
    __device__ static int first_row(const WgmmaProblem& p, int round) {
        if (!p.levels) return round * ROUND_COLS;
        if (of_level(p, round)) return round / 4 * ROUND_COLS * LEVEL_STRIDE + 1;
        return (round - round / 4) * ROUND_COLS;
    }
    // Of the rows of B of a round, the one that is row k of B', where that is not one of zeros.
    __host__ __device__ static constexpr int source(int k) { return k / 4 * 3 + (k % 4 < 2 ? k % 4 : 2); }
    __device__ static bool is_zeros(int k) { return k % 4 == 3; }

    // --- a chunk ---

    __device__ static uint32_t single_steps(uint32_t steps) { return steps; }

    // What bmma starts from to compute the addresses of values.
    struct Header {
        uint32_t presence[TILES], bases[TILES / 2][4];
        uint32_t steps;  // of entries
    };

    __device__ __forceinline__ static Header header(Address at, int lane,
                                                    const uint32_t (&metadata)[TILES]) {
        Header h;
        uint2 starts = ld_shared_v2(at + starts_at(PAIRS) + lane / 4 * 8);
        h.steps = __shfl_sync(~0u, stated(starts), 0);
        begin_streams(h.bases, starts, at);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) h.presence[tile] = presence(metadata[tile]);
        return h;
    }

    // A registers of a step. Addresses of two tiles' values come while products of the step before run.
    struct Values {
        uint32_t masks[4];  // rank_mask of each half of each step
        uint32_t of_step[TILES][4], address[2][4];

        __device__ explicit Values(int lane) {
            for (int q = 0; q < 4; q++) masks[q] = keep(rank_mask(q, lane));
        }
        __device__ const uint32_t (&a(int, int tile) const)[4] { return of_step[tile]; }
        __device__ __forceinline__ void prepare(const Header& h, int step) { locate(h, step, 0); }
        __device__ __forceinline__ void finish(const Header& h, int step) {
            extract(0);
            locate(h, step, 1);
            extract(1);
        }
        __device__ static void used(int) {}  // all that is written is written behind a wait
        // Where the values of two tiles lie.
        __device__ __forceinline__ void locate(const Header& h, int step, int pair) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                bmma_m16n8k128(address[half], h.presence[2 * pair], h.presence[2 * pair + 1],
                               masks[2 * step + half], h.bases[pair]);
        }
        // extract: these values, into A registers.
        __device__ __forceinline__ void extract(int pair) {
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    of_step[2 * pair + i / 2][2 * half + i % 2] =
                        left_out(Stage::extract) ? wgmma_operand(address[half][i] & 0x3bff3bff)
                                                 : gather<PAIRS>(address[half][i]);
        }
    };

    struct Places {
        int lane;
        __device__ explicit Places(int lane) : lane(lane) {}
    };

    // Entry i's row of B' is as far behind a multiple of eight as row i: eight of them never meet in a bank.
    template <class T, int BLOCK_N>
    struct Entries : EntryStep<T, BLOCK_N> {
        __device__ __forceinline__ void load(Address entries, Address tile, const Places& places) {
            uint32_t own = anew(places.lane), g = own / 4, place = own % 8;  // signed / and % take three instructions
            auto of_row = [](uint32_t entry, uint32_t row) { return entry >> 24 == row ? entry & 0xffff : 0; };
            uint2 two = ld_shared_v2(entries + own % 4 * 8);
            uint32_t mine = ld_shared(entries + place * 4);
            this->a[0] = of_row(two.x, g) | of_row(two.y, g) << 16;
            this->a[1] = of_row(two.x, g + 8) | of_row(two.y, g + 8) << 16;
            this->meet(tile + own / 8 * DenseTile<BLOCK_N>::EIGHT_BYTES, mine >> 16 & 255);
        }
    };
};

}  // namespace
}  // namespace lscd
