// What is on its way to shared memory: chunks of A in a ring for each warp, which refills it itself, here; tiles of
// B' for all warps (hopper_wgmma_dense.cuh). Where all that lies.
#pragma once
#include "hopper_wgmma_walk.cuh"

namespace lscd {
namespace {

// Shared memory of a block: of each tile's place, sixteen bytes behind the one before, an mbarrier, whether its tile is
// there; how many warps have left it, or an mbarrier for that, too (hopper_wgmma_quarters.cuh), not beside the former,
// which is slower; and which tile comes next. Then the end of its segments; mbarriers of rings; what each warp keeps,
// of the segment that it multiplies and, OF_COPIES, of the one that it copies; tiles; rings.
constexpr int MOST_TILES = 6, PLACE_BYTES = 16, LEFT = 128, COMES_NEXT = 2 * LEFT;
static_assert(MOST_TILES * PLACE_BYTES <= LEFT);
constexpr int END_OF_SEGMENTS = 3 * LEFT, RING_BARRIERS = END_OF_SEGMENTS + 8;
constexpr int KEPT = RING_BARRIERS + MOST_WARPS * STRIP_STAGES * 8, KEPT_BYTES = 16, OF_COPIES = 3;
constexpr int DENSE_TILES = 1024;
static_assert(RING_BARRIERS % 8 == 0 && KEPT + MOST_WARPS * KEPT_BYTES <= DENSE_TILES);

// Of the numbers that a strip's warp keeps.
__device__ inline Address kept_at(Address memory, int strip, int nth) {
    return memory + KEPT + strip * KEPT_BYTES + 4 * nth;
}

// The chunks of a warp, one of so many.
template <class FORMAT, int WARPS>
struct SparseRing {
    using Chunks = Walk<WARPS>;

    const WgmmaProblem& p;
    Address memory;  // of the block
    int strip, lane;
    Chunks chunks{0, 0, 0};       // to be copied, whose segment waits in shared memory,
    uint32_t start = 0, end = 0;  // from here to there, in 16 bytes
    Address stage, barrier;       // of the chunk that is read next
    int stages_left = p.stages;
    uint32_t parity = 0;
    // Where in their stages chunks lie that are under way, in 16 bytes: IN_LINE bits of each, from the one
    // that is read next on.
    uint32_t lines = 0;
    static constexpr int IN_LINE = 3;
    static_assert(LINE == 16 << IN_LINE && IN_LINE * STRIP_STAGES <= 32);

    __device__ SparseRing(const WgmmaProblem& p, Address memory, int tile_bytes, int strip, int lane)
        : p(p), memory(memory), strip(strip), lane(lane),
          stage(memory + DENSE_TILES + p.tile_slots * tile_bytes + strip * p.stages * p.stage_bytes),
          barrier(memory + RING_BARRIERS + strip * p.stages * 8) {}

    __device__ Address kept_segment() const { return kept_at(memory, strip, OF_COPIES); }
    __device__ void keep_segment() const {
        if (lane == 0) st_shared(kept_segment(), chunks.segment);
    }
    __device__ void open_next() {
        chunks.segment = ld_shared(kept_segment());
        chunks.open_next(p, strip);
        __syncwarp();
        keep_segment();
    }
    // The chunk after that; of chunk 0, if there is none: numbers that nobody uses, for a branch less. Both are loaded
    // anew: a load's answer that is moved is waited for.
    __device__ void next() {
        if (uniform(++chunks.at == chunks.last)) open_next();
        start = __ldg(p.chunk_start() + chunks.at), end = __ldg(p.chunk_start() + chunks.at + 1);
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
    __device__ void make_barriers() const {
#pragma unroll 1
        for (int i = 0; i < p.stages; i++) mbarrier_init(barrier + 8 * i, 1);
    }
    // Every stage's first copy is a lane's: where it begins and ends, then copies `from` to `to`, then what
    // comes behind them.
    __device__ void begin(const LaneNumbers<WarpStart>& record) {
        int mine = min(lane, p.stages - 1);
        start = record[WarpStart::STARTS + mine], end = record[WarpStart::ENDS + mine];
        if (lane >= p.stages) end = start;
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
    __device__ void filled(const LaneNumbers<WarpStart>& record) {
        chunks = Chunks(record, WarpStart::CHUNKS);
        start = record[WarpStart::START], end = record[WarpStart::END];
        keep_segment();
    }
    // Until they are filled.
    __device__ bool has_copy() const { return start < end; }
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
            next();
        }
        stage += p.stage_bytes, barrier += 8;
        if (--stages_left) return;
        stage -= p.stages * p.stage_bytes, barrier -= p.stages * 8;
        stages_left = p.stages, parity ^= 1;
    }
};

}  // namespace
}  // namespace lscd
