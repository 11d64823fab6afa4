// What is on its way to shared memory: chunks of A in a ring for each warp, tiles of B' in one ring for
// all. Nobody waits to produce: a warp refills its own ring, and the last of the warps to leave a tile
// fetches the next one. Whoever that is, results are the same.
#pragma once
#include "hopper_wgmma_walk.cuh"

namespace lscd {
namespace {

// Shared memory of a block: mbarriers of tiles, how many warps have left each, the end of its segments, and
// which tile comes next in each one's place; mbarriers of rings; what each warp keeps; tiles; rings.
constexpr int MOST_TILES = 6, LEFT = MOST_TILES * 8, END_OF_SEGMENTS = LEFT + MOST_TILES * 4;
constexpr int NEXT_TILES = 80, RING_BARRIERS = NEXT_TILES + MOST_TILES * 16;
constexpr int KEPT = RING_BARRIERS + STRIP_STAGES * MOST_WARPS * 8, KEPT_BYTES = 12, DENSE_TILES = 1024;
static_assert(END_OF_SEGMENTS + 4 <= NEXT_TILES && KEPT + MOST_WARPS * KEPT_BYTES <= DENSE_TILES);

// The tiles of B', as one warp sees them.
template <int BLOCK_N>
struct DenseRing {
    using Tile = DenseTile<BLOCK_N>;
    using Tiles = Walk<0>;
    static constexpr int WARPS = wgmma_warps(BLOCK_N);

    const WgmmaProblem& p;
    Address memory;  // of the block
    int warp, lane;
    uint32_t slot = 0, parity = 0;  // of the tile that is read next

    __device__ DenseRing(const WgmmaProblem& p, Address memory, int warp, int lane)
        : p(p), memory(memory), warp(warp), lane(lane) {}

    __device__ Address tile() const { return memory + DENSE_TILES + slot * Tile::BYTES; }

    // ld_dense: a bulk copy of a round's tile.
    __device__ void ld_dense(int slot, int round) const {
        auto* from = static_cast<const uint8_t*>(p.tiles) +
                     (int64_t(blockIdx.y) * p.rounds + round) * Tile::BYTES;
        bulk_copy(memory + DENSE_TILES + slot * Tile::BYTES, from, Tile::BYTES, memory + 8 * slot,
                  evict_last());
    }

    // One lane of each of the first warps begins with a tile.
    __device__ bool begins() const { return lane == 0 && warp < p.tile_slots; }
    __device__ void make_barrier() const {
        if (!begins()) return;
        mbarrier_init(memory + 8 * warp, 1);
        st_shared(memory + LEFT + 4 * warp, 0);  // nobody has left it
    }
    // Tiles `from` to `to`, by a warp each.
    __device__ void fill(const LaneNumbers<WarpStart>& record, int from, int to) const {
        Tiles tile(record, WarpStart::TILE), then(record, WarpStart::NEXT_TILE);
        if (!begins() || warp < from || warp >= to || !tile.more()) return;
        ld_dense(warp, tile.at);
        expect(warp, then);
    }
    // The tile under way to this slot, and what comes after it: stored before the mbarrier knows of the copy,
    // for whoever will have waited for it.
    __device__ void expect(int slot, const Tiles& then) const {
        Address to = memory + NEXT_TILES + 16 * slot;
        st_shared(to, then.segment), st_shared(to + 4, then.at), st_shared(to + 8, then.last);
        mbarrier_arrive_expect(memory + 8 * slot, Tile::BYTES);
    }

    __device__ void wait() const { mbarrier_wait(memory + 8 * slot, parity); }
    // Asked ahead of time, since the answer takes some.
    __device__ bool is_there() const { return mbarrier_is_over(memory + 8 * slot, parity); }
    // A name of its own, since results do not depend on it: the test that takes waits away leaves it.
    __device__ void until_first_is_there() const { wait(); }
    __device__ void advance() {
        if (++slot == uint32_t(p.tile_slots)) slot = 0, parity ^= 1;
    }
    __device__ int slot_before() const { return (slot ? slot : p.tile_slots) - 1; }

    // This warp has read the tile, and synchronised since. How many had before, lane 0 learns.
    __device__ uint32_t leave(int slot) const {
        return count_shared(lane == 0, memory + LEFT + 4 * slot, WARPS - 1);
    }
    // The last one to leave fetches another tile, for all.
    __device__ void refill(int slot, uint32_t left_before) const {
        if (left_before != WARPS - 1) return;
        Address next = memory + NEXT_TILES + 16 * slot;
        Tiles tile(ld_shared(next), ld_shared(next + 4), ld_shared(next + 8));
        if (!tile.more()) return;
        ld_dense(slot, tile.at);
        tile.skip(p, p.tile_slots);
        expect(slot, tile);
    }
    // Rounds of a row block that ends above this warp's strip: lane 0 waits, for which all wait before they
    // read a tile again.
    __device__ void pass(int rounds) {
        for (; rounds; rounds--, advance())
            if (lane == 0) wait(), refill(slot, leave(slot));
    }
};

// The chunks of a warp, one of so many.
template <class FORMAT, int WARPS>
struct SparseRing {
    using Chunks = Walk<WARPS>;

    const WgmmaProblem& p;
    int strip, lane;
    Chunks chunks{0, 0, 0};       // to be copied,
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
        : p(p), strip(strip), lane(lane),
          stage(memory + DENSE_TILES + p.tile_slots * tile_bytes + strip * p.stages * p.stage_bytes),
          barrier(memory + RING_BARRIERS + strip * p.stages * 8) {}

    // The chunk after that: of the same segment it begins where the one before ends.
    __device__ void next() {
        start = end;
        if (uniform(++chunks.at == chunks.last)) {
            chunks.open_next(p, strip);
            if (uniform(chunks.more())) start = __ldg(p.chunk_start() + chunks.at);
        }
        if (uniform(chunks.more())) end = __ldg(p.chunk_start() + chunks.at + 1);
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
