// A warp's ring of chunks in stages, of which each has room for any one.
#pragma once
#include "hopper_wgmma_copies.cuh"

namespace lscd {
namespace {

template <class FORMAT, int WARPS>
struct StagedRing : ChunkCopies<WARPS> {
    using Base = ChunkCopies<WARPS>;
    using Base::p, Base::lane, Base::chunks, Base::start, Base::end, Base::has_copy;

    Address stage, barrier;  // of the chunk that is read next
    int stages_left;
    uint32_t parity = 0;
    // Where in their stages chunks lie that are under way, in 16 bytes: IN_LINE bits of each, from the one
    // that is read next on.
    uint32_t lines = 0;
    static constexpr int IN_LINE = 3;
    static_assert(LINE == 16 << IN_LINE && IN_LINE * STRIP_STAGES <= 32);

    __device__ StagedRing(const WgmmaProblem& p, Address memory, int tile_bytes, int strip, int lane)
        : Base(p, memory, strip, lane), stage(Base::own_ring(tile_bytes)),
          barrier(Base::own_barriers()), stages_left(p.stages) {}
    static bool fits(const WgmmaProblem& p) {
        return p.stages >= 1 && p.stages <= STRIP_STAGES && p.ring_bytes == p.stages * p.stage_bytes;
    }

    // How far into a stage a chunk lies, in 16 bytes: so that its lines of global memory stay lines, if the
    // stage has room for that.
    __device__ uint32_t into(Address stage, uint32_t start, uint32_t end) const {
        if constexpr (FORMAT::WHOLE_LINES) return 0;
        return min((start - stage / 16) % (LINE / 16), uint32_t(p.stage_bytes) / 16 - (end - start));
    }
    // Where the next copy ends: stages have room for all of a chunk but its far steps.
    __device__ uint32_t copy_end() const {
        if constexpr (FORMAT::FAR) return min(end, start + uint32_t(p.stage_bytes) / 16);
        return end;
    }
    // Every stage's first copy is a lane's: where it begins and ends, then copies `from` to `to`.
    __device__ void begin(const LaneNumbers<WarpStart>& record) {
        Base::begin(record, p.stages);
        if constexpr (FORMAT::WHOLE_LINES) return;
        if (has_copy()) lines = into(stage_of(lane), start, end) << IN_LINE * lane;
        static_assert(STRIP_STAGES == 2);
        lines |= __shfl_xor_sync(~0u, lines, 1);
        lines = __shfl_sync(~0u, lines, 0);
    }
    __device__ void fill(int from, int to) const {
        if (!has_copy() || lane < from || lane >= to) return;
        Address to_stage = stage_of(lane) + into(stage_of(lane), start, end) * 16;
        ld_sparse<false>(to_stage, p.data(), start, copy_end(), barrier + 8 * lane);
    }
    __device__ Address stage_of(int i) const { return stage + i * p.stage_bytes; }

    // Until the chunk that is read next is there.
    __device__ void wait() const { mbarrier_wait(barrier, parity); }
    __device__ Address chunk() const { return stage + lines % (LINE / 16) * 16; }

    // All lanes have read the stage; the next copy takes its place.
    __device__ void refill() {
        __syncwarp();
        lines >>= IN_LINE;
        if (uniform(chunks.more())) {
            uint32_t line = into(stage, start, end);
            lines |= line << IN_LINE * (p.stages - 1);
            ld_sparse<true>(stage + line * 16, p.data(), start, copy_end(), barrier);
            Base::next();
        }
        stage += p.stage_bytes, barrier += 8;
        if (--stages_left) return;
        stage -= p.stages * p.stage_bytes, barrier -= p.stages * 8;
        stages_left = p.stages, parity ^= 1;
    }
};

}  // namespace
}  // namespace lscd
