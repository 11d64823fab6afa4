// What is on its way to shared memory: chunks of A in a ring for each warp, tiles of B' in one ring for
// all. Nobody waits to produce: a warp refills its own ring, and the last of the warps to leave a tile
// fetches the next one. Whoever that is, results are the same.
#pragma once
#include "hopper_wgmma_walk.cuh"

namespace lscd {
namespace {

// Shared memory of a block: mbarriers of tiles, and how many warps have left each; the tile that comes
// next, for each warp; mbarriers of rings, and behind each, IN_LINE further on, where in its stage the
// chunk lies; tiles; rings.
constexpr int LEFT = 64, NEXT_TILE = 128, RING_BARRIERS = 384, DENSE_TILES = 2048;
constexpr int MOST_TILES = LEFT / 8, IN_LINE = MOST_STAGES * MOST_WARPS * 8;
static_assert(RING_BARRIERS + 2 * IN_LINE <= DENSE_TILES);

// One lane makes a warp's mbarriers, each for one arrival; then all of its lanes may use them.
__device__ __forceinline__ void begin_mbarriers(Address first, int count, int lane) {
    if (lane == 0) {
        for (int i = 0; i < count; i++) mbarrier_init(first + 8 * i, 1);
        mbarrier_init_fence();
    }
    __syncwarp();
}

// The tiles of B', as one warp sees them.
template <int BLOCK_N>
struct DenseRing {
    using Tile = DenseTile<BLOCK_N>;
    using Tiles = Walk<0>;
    static constexpr int WARPS = wgmma_warps(BLOCK_N);

    const WgmmaProblem& p;
    Address memory;  // of the block
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t slot = 0, parity = 0;  // of the tile that is read next

    __device__ DenseRing(const WgmmaProblem& p, Address memory) : p(p), memory(memory) {}

    __device__ Address tile() const { return memory + DENSE_TILES + slot * Tile::BYTES; }

    // ld_dense: a bulk copy of a round's tile.
    __device__ void ld_dense(int slot, int round) const {
        auto* from = static_cast<const uint8_t*>(p.tiles) +
                     (int64_t(blockIdx.y) * p.rounds + round) * Tile::BYTES;
        mbarrier_arrive_expect(memory + 8 * slot, Tile::BYTES);
        bulk_copy(memory + DENSE_TILES + slot * Tile::BYTES, from, Tile::BYTES, memory + 8 * slot,
                  evict_last());
    }

    // The first tiles, each by a lane of the first warp; which comes then, every warp knows.
    __device__ void fill() {
        Tiles mine(p, 0);
        mine.skip(p, 0, lane);
        if (lane == p.tile_slots) store_next(mine);
        if (warp) return;
        begin_mbarriers(memory, p.tile_slots, lane);
        if (lane >= p.tile_slots) return;
        st_shared(memory + LEFT + 4 * lane, 0);
        if (mine.more()) ld_dense(lane, mine.at);
    }
    __device__ void store_next(const Tiles& tiles) const {
        Address to = memory + NEXT_TILE + 16 * warp;
        st_shared(to, tiles.segment), st_shared(to + 4, tiles.at), st_shared(to + 8, tiles.last);
    }
    __device__ Tiles load_next() const {
        Address from = memory + NEXT_TILE + 16 * warp;
        return Tiles(ld_shared(from), ld_shared(from + 4), ld_shared(from + 8));
    }

    __device__ void wait() const { mbarrier_wait(memory + 8 * slot, parity); }
    __device__ void advance() {
        if (++slot == uint32_t(p.tile_slots)) slot = 0, parity ^= 1;
    }
    __device__ int slot_before() const { return (slot ? slot : p.tile_slots) - 1; }

    // This warp has read the tile, and synchronised since. How many had before, lane 0 learns.
    __device__ uint32_t leave(int slot) const {
        return lane ? 0 : count_shared(memory + LEFT + 4 * slot);
    }
    // The last one to leave fetches another tile, for all.
    __device__ void refill(int slot, uint32_t left_before) const {
        if (lane) return;
        Tiles tiles = load_next();
        if (!tiles.more()) return;
        if (left_before % WARPS == WARPS - 1) ld_dense(slot, tiles.at);
        tiles.next(p, 0);
        store_next(tiles);
    }
    // Rounds of a row block that ends above this warp's strip.
    __device__ void pass(int rounds) {
        for (; rounds; rounds--) {
            wait();
            refill(slot, leave(slot));
            advance();
        }
    }
};

// The chunks of a warp, one of so many.
template <int WARPS>
struct SparseRing {
    using Chunks = Walk<WARPS>;

    const WgmmaProblem& p;
    int strip = threadIdx.x / 32, lane = threadIdx.x % 32;
    Chunks chunks;         // to be copied, by lane 0,
    int start = 0, end = 0;    // from here to there, in 16 bytes
    Address stage, barrier;    // of the chunk that is read next
    int stages_left = p.stages;
    uint32_t parity = 0;

    __device__ SparseRing(const WgmmaProblem& p, Address memory, int tile_bytes)
        : p(p), chunks(p, strip),
          stage(memory + DENSE_TILES + p.tile_slots * tile_bytes + strip * p.stages * p.stage_bytes),
          barrier(memory + RING_BARRIERS + strip * p.stages * 8) {}

    __device__ void locate(const Chunks& chunks, int& start, int& end) const {
        if (!chunks.more()) return;
        start = __ldg(p.chunk_start() + chunks.at), end = __ldg(p.chunk_start() + chunks.at + 1);
    }
    // ld_sparse: a bulk copy of a chunk. The largest ones may have no room to begin where they should.
    __device__ void ld_sparse(Address stage, Address barrier, int start, int end) const {
        uint32_t bytes = (end - start) * 16, in_line = min(start * 16 % LINE, p.stage_bytes - int(bytes));
        st_shared(barrier + IN_LINE, in_line);
        mbarrier_arrive_expect(barrier, bytes);
        bulk_copy(stage + in_line, p.data() + int64_t(start) * 16, bytes, barrier, evict_first());
    }

    // Every stage by a lane of its own.
    __device__ void fill() {
        Chunks mine = chunks;
        mine.skip(p, strip, lane);
        begin_mbarriers(barrier, p.stages, lane);
        if (lane < p.stages) {
            int start, end;
            locate(mine, start, end);
            if (mine.more()) ld_sparse(stage + lane * p.stage_bytes, barrier + 8 * lane, start, end);
        }
        chunks.skip(p, strip, p.stages);
        locate(chunks, start, end);
    }

    // Until the chunk that is read next is there.
    __device__ void wait() const { mbarrier_wait(barrier, parity); }
    __device__ Address chunk() const { return stage + ld_shared(barrier + IN_LINE); }

    // All lanes have read the stage; the next copy takes its place.
    __device__ void refill() {
        __syncwarp();
        if (lane == 0 && chunks.more()) {
            ld_sparse(stage, barrier, start, end);
            chunks.next(p, strip);
            locate(chunks, start, end);
        }
        stage += p.stage_bytes, barrier += 8;
        if (--stages_left) return;
        stage -= p.stages * p.stage_bytes, barrier -= p.stages * 8;
        stages_left = p.stages, parity ^= 1;
    }
};

}  // namespace
}  // namespace lscd
