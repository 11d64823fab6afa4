// A chunk of 2:4 times its tile of B', for the wgmma kernel: what is in flight at the same time, and when registers
// may be used again.
#pragma once
#include "hopper_wgmma_warp.cuh"

namespace lscd {
namespace {

// Groups have two slots; FORMAT says how a chunk becomes their values, and what are entries.
template <class FORMAT, class T, int BLOCK_N, int WARPS>
struct SlotsWarp : WgmmaWarp<FORMAT, T, BLOCK_N, WARPS> {
    using Base = WgmmaWarp<FORMAT, T, BLOCK_N, WARPS>;
    using Base::p, Base::lane, Base::dense, Base::sum;
    using Tile = typename Base::Tile;
    using Entries = typename FORMAT::template Entries<T, BLOCK_N>;

    typename FORMAT::Values values;
    typename FORMAT::Places places;  // of steps of entries, and of fours, that the lane reads
    uint32_t x[2][4] = {};           // metadata, by turns

    __device__ SlotsWarp(const WgmmaProblem& p, Address memory) : Base(p, memory), values(lane), places(lane) {}

    // smem2tc: a step of all tiles.
    __device__ __forceinline__ void smem2tc(const uint32_t (&metadata)[TILES], uint32_t rows, int step) {
        wgmma_fence();
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            uint64_t b = dense.descriptor(rows, (tile * 2 + step) * 32);
            if (left_out(Stage::smem2tc)) continue;
            if (step == 0) wgmma_sp_m64k32<T, BLOCK_N, 0>(sum, values.a(0, tile), b, metadata[tile], 1);
            else wgmma_sp_m64k32<T, BLOCK_N, 1>(sum, values.a(1, tile), b, metadata[tile], 1);
        }
        wgmma_commit();
    }

    // A chunk, whose metadata goes to x[turn], in two steps: what can be prepared of a step, and entries, comes
    // while the tensor core works on the step before, the rest when it has read its registers. If the chunk
    // `follows` another, products of that one may still read its metadata, and its tile of B', which is left when
    // they no longer do.
    template <class Turn>
    __device__ __forceinline__ void chunk(Address at, Turn, bool follows) {
        uint32_t(&x)[4] = this->x[Turn::value], (&before)[4] = this->x[1 - Turn::value];
        uint32_t rows = dense.rows();
        uint4 metadata = ld_shared_v4(at + lane * 16);  // which all chunks begin with
        x[0] = metadata.x, x[1] = metadata.y, x[2] = metadata.z, x[3] = metadata.w;
        bool tile_is_there = dense.is_there();
        auto h = FORMAT::header(at, lane, x);
        Entries entries;  // the first ones
        uint32_t left_before = 0;
#pragma unroll
        for (int step = 0; step < 2; step++) {
            if (step && FORMAT::single_steps(h.steps)) entries.load(at + FORMAT::ENTRIES, dense.tile(), places);
            values.prepare(h, step);
            wgmma_wait<0>();  // for all four warps: sums are registers again, whichever has entries
            values.finish(h, step);
            if (step == 0) {
                wgmma_used(before);
                if (follows) left_before = dense.leave(dense.before);
                if (!tile_is_there) dense.wait();
            } else if (!left_out(Stage::smem2tc)) add_entries(entries, at, h.steps);
            smem2tc(x, rows, step);
            if (step == 0) dense.refill(dense.before, left_before);
        }
    }

    // Weights without a slot, as many steps of them as the header states; the first single one is loaded, if there is
    // one.
    __device__ __forceinline__ void add_entries(Entries& entries, Address chunk, uint32_t stated) {
        uint32_t steps = FORMAT::single_steps(stated);
        Address at = chunk + FORMAT::ENTRIES;
        if (steps) entries.add_to(sum);
#pragma unroll 1
        while (steps > 1) {
            steps--;
            entries.load(at += FORMAT::STEP_BYTES, dense.tile(), places);
            entries.add_to(sum);
        }
        if constexpr (FORMAT::FAR)
            if (uniform(FORMAT::has_more(stated))) {
                add_fours(chunk, stated);
                if (uniform(FORMAT::far_steps(stated))) add_far_entries(entries, chunk, FORMAT::far_steps(stated));
            }
    }
    __device__ __forceinline__ void add_fours(Address chunk, uint32_t stated) {
        typename FORMAT::template Fours<T, BLOCK_N> entries;
        constexpr int BYTES = FORMAT::FOUR * FORMAT::STEP_BYTES;
        Address at = chunk + FORMAT::ENTRIES + FORMAT::single_steps(stated) * FORMAT::STEP_BYTES;
        Address end = at + FORMAT::fours(stated) * BYTES, metadata = end;
#pragma unroll 1
        for (; at != end; at += BYTES, metadata += FORMAT::FOUR_BYTES) {
            entries.load(at, metadata, dense.tile(), places);
            entries.add_to(sum);
        }
    }
    __device__ void add_far_entries(Entries& entries, Address chunk, uint32_t steps) {
        const uint8_t* at = p.data() + int64_t(ld_shared(chunk + FORMAT::FAR_AT)) * 16;
#pragma unroll 1
        for (; steps; steps--, at += FORMAT::STEP_BYTES) {
            entries.load_far(at, dense.tile(), places);
            entries.add_to(sum);
        }
    }
    __device__ void ended() const { wgmma_used(x[0]), wgmma_used(x[1]), values.used(1); }
};

}  // namespace
}  // namespace lscd
