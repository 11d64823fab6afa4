// Where the streams of a chunk begin: see kernels/cpu/encode/zero_row_24_placement.h, also for why.
// Each lane weighs up its own stream.
#pragma once
#include "zero_row_24_tile.cuh"

namespace lscd::zero_row_24 {

constexpr int FREE_BYTES = 120, WAVEFRONT_COST = 20;
constexpr int GATHERS = 8;  // of a tile; packed streams take two loads for each

// Of a byte that is skipped, and of taking turns.
struct Costs {
    int skip, turns;
};

template <bool PAIRS>
constexpr int LOADS = PAIRS ? GATHERS : 2 * GATHERS;

__device__ inline uint32_t rotated(uint32_t mask, int by) {
    return __funnelshift_l(mask, mask, by);
}

// The banks that the loads of the lane's stream read, by gather, if it starts with bank 0.
template <bool PAIRS>
struct Reads {
    uint32_t slot0[GATHERS] = {}, slot1[GATHERS] = {};

    __device__ explicit Reads(Shared<uint32_t> metadata) {
        int at = 0;
#pragma unroll
        for (int order = 0; order < ORDERS; order++) {
            int word = metadata_word(lane_id() / TILE_STREAMS, lane_id() % TILE_STREAMS, order);
            uint32_t code = metadata.load(word) >> 4 * (order % 8) & 15;
            slot0[order / 4] |= 1u << (at / 4 & 31);
            slot1[order / 4] |= 1u << ((at + 2) / 4 & 31);
            int first = (code & 3) != 3, second = code >> 2 != 3;
            at += PAIRS ? 4 * second : 2 * first + 2 * second;
        }
    }
    // Of load q, if the stream starts with that bank, or, ODD, with its second half: then slot 0
    // reads what slot 1 would read, and slot 1 the words after those of slot 0.
    template <bool ODD>
    __device__ uint32_t banks(int q, int bank) const {
        if (PAIRS) return rotated(slot0[q], bank);
        if (q % 2 == ODD) return rotated(slot0[q / 2], bank + ODD);
        return rotated(slot1[q / 2], bank);
    }
};

// What placed streams read, by load and tile: level n holds the banks that more than n of them
// read, `fullest` those that no other bank exceeds.
template <bool PAIRS>
class Piles {
    static constexpr int PILES = LOADS<PAIRS> * TILES;
    Shared<uint32_t> level_, fullest_, added_;

  public:
    struct Memory {
        uint32_t level[TILE_STREAMS * PILES], fullest[PILES], added[LOADS<PAIRS>];
    };
    __device__ explicit Piles(Memory& memory)
        : level_(in_shared(memory.level)), fullest_(in_shared(memory.fullest)),
          added_(in_shared(memory.added)) {
        for (int i = lane_id(); i < TILE_STREAMS * PILES; i += LANES) level_.store(i, 0);
        for (int i = lane_id(); i < PILES; i += LANES) fullest_.store(i, ~0u);
        __syncwarp();
    }
    __device__ uint32_t fullest(int q) const {
        return fullest_.load(q * TILES + lane_id() / TILE_STREAMS);
    }
    // Adds the stream of lane `chosen`; each lane counts for one load of its tile.
    template <bool ODD>
    __device__ void add(const Reads<PAIRS>& reads, int bank, int chosen) {
#pragma unroll
        for (int q = 0; q < LOADS<PAIRS>; q++) {
            uint32_t banks = reads.template banks<ODD>(q, bank);
            if (lane_id() == chosen) added_.store(q, banks);
        }
        __syncwarp();
        if (lane_id() < LOADS<PAIRS>) {
            int pile = lane_id() * TILES + chosen / TILE_STREAMS;
            uint32_t mask = added_.load(lane_id()), most = 0;
#pragma unroll
            for (int n = 0; n < TILE_STREAMS; n++) {
                uint32_t before = level_.load(n * PILES + pile), now = before | mask;
                level_.store(n * PILES + pile, now);
                if (now) most = now;
                mask &= before;
            }
            fullest_.store(pile, most);
        }
        __syncwarp();
    }
};

template <bool PAIRS>
class Placement {
    static constexpr int STEP = PAIRS ? 4 : 2;
    Reads<PAIRS> reads_;
    Piles<PAIRS> piles_;
    int bytes_, first_;  // of the lane's stream; where streams may begin

  public:
    int start, end;  // of the lane's stream; of all of them

    __device__ Placement(Shared<uint32_t> metadata, typename Piles<PAIRS>::Memory& memory,
                         int bytes, int first)
        : reads_(metadata), piles_(memory), bytes_(bytes), first_(first), start(first),
          end(first) {}

    // Greedily, unless that would make more than `most` bytes of the chunk.
    __device__ void place(int reach, Costs costs, int most) {
        if (reach >= 0 && !free_of_conflicts()) {
            greedily(reach, costs);
            if (end + TAIL <= most) return;
        }
        int after = inclusive_scan(bytes_);
        start = first_ + after - bytes_;
        end = first_ + __shfl_sync(ALL_LANES, after, LANES - 1);
    }

  private:
    // Whether no tile's streams fill the banks once.
    __device__ bool free_of_conflicts() const {
        int tile = bytes_;
        for (int d = 1; d < TILE_STREAMS; d *= 2) tile += __shfl_xor_sync(ALL_LANES, tile, d);
        return __all_sync(ALL_LANES, tile <= FREE_BYTES);
    }
    __device__ void greedily(int reach, Costs costs) {
        for (uint32_t placed = 0; ~placed;) {
            uint32_t best = __reduce_min_sync(ALL_LANES, best_of_lane(placed, reach, costs));
            int chosen = best % 256, at = end + best / 256 % 256;
            if (at / 2 % 2) piles_.template add<true>(reads_, at / 4, chosen);
            else piles_.template add<false>(reads_, at / 4, chosen);
            if (lane_id() == chosen) start = at;
            end = at + __shfl_sync(ALL_LANES, bytes_, chosen);
            placed |= 1u << chosen;
        }
    }
    // Least cost of the lane's stream << 16 | bytes skipped << 8 | lane; all ones if it is placed.
    __device__ uint32_t best_of_lane(uint32_t placed, int reach, Costs costs) const {
        if (placed >> lane_id() & 1) return ~0u;
        uint32_t full[LOADS<PAIRS>], best = ~0u;
#pragma unroll
        for (int q = 0; q < LOADS<PAIRS>; q++) full[q] = piles_.fullest(q);
        uint32_t of_tile = placed >> lane_id() / TILE_STREAMS * TILE_STREAMS & 0xff;
        int saved = costs.turns * __popc(of_tile);  // the others' costs are of 8 streams left
        for (int skip = 0; skip <= reach; skip += STEP) {
            int at = end + skip, bank = at / 4;
            int more = at / 2 % 2 ? wavefronts<true>(full, bank) : wavefronts<false>(full, bank);
            uint32_t cost = WAVEFRONT_COST * more + costs.skip * skip + saved;
            best = min(best, cost << 16 | uint32_t(skip) << 8 | lane_id());
        }
        return best;
    }
    template <bool ODD>
    __device__ int wavefronts(const uint32_t (&full)[LOADS<PAIRS>], int bank) const {
        int sum = 0;
#pragma unroll
        for (int q = 0; q < LOADS<PAIRS>; q++)
            sum += (reads_.template banks<ODD>(q, bank) & full[q]) != 0;
        return sum;
    }
};

}  // namespace lscd::zero_row_24
