// What is on its way to shared memory: chunks of A in a ring for each warp, which refills it itself
// (hopper_wgmma_stages.cuh, hopper_wgmma_ends.cuh); tiles of B' for all warps (hopper_wgmma_dense.cuh). Where all that
// lies, and which chunks a warp copies.
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

// The chunks of a warp, one of so many, on their way to its ring.
template <int WARPS>
struct ChunkCopies {
    using Chunks = Walk<WARPS>;

    const WgmmaProblem& p;
    Address memory;  // of the block
    int strip, lane;
    Chunks chunks{0, 0, 0};       // to be copied, whose segment waits in shared memory,
    uint32_t start = 0, end = 0;  // from here to there, in 16 bytes

    __device__ ChunkCopies(const WgmmaProblem& p, Address memory, int strip, int lane)
        : p(p), memory(memory), strip(strip), lane(lane) {}

    __device__ Address own_barriers() const { return memory + RING_BARRIERS + strip * STRIP_STAGES * 8; }
    __device__ Address own_ring(int tile_bytes) const {
        return memory + DENSE_TILES + p.tile_slots * tile_bytes + strip * p.ring_bytes;
    }
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
    __device__ void make_barriers() const {
#pragma unroll 1
        for (int i = 0; i < STRIP_STAGES; i++) mbarrier_init(own_barriers() + 8 * i, 1);
    }
    // Of the ring's first copies, `count` at most, a lane has one each, if it has one; then comes what is behind them.
    __device__ void begin(const LaneNumbers<WarpStart>& record, int count) {
        int mine = min(lane, count - 1);
        start = record[WarpStart::STARTS + mine], end = record[WarpStart::ENDS + mine];
        if (lane >= count) end = start;
    }
    __device__ bool has_copy() const { return start < end; }
    __device__ void filled(const LaneNumbers<WarpStart>& record) {
        chunks = Chunks(record, WarpStart::CHUNKS);
        start = record[WarpStart::START], end = record[WarpStart::END];
        keep_segment();
    }
};

}  // namespace
}  // namespace lscd
