// Where the streams of a chunk begin: see kernels/cpu/encode/zero_row_24_placement.h, also for why.
// Each lane weighs up its own stream, all starts at once: bit k of a register stands for bank k.
#pragma once
#include "zero_row_24_tile.cuh"

namespace lscd::zero_row_24 {

constexpr int FREE_BYTES = 120, WAVEFRONT_COST = 20;
constexpr int LONGEST = 4;   // banks that a load of a stream reads: a word for each of four groups
constexpr int RUN_BITS = 8;  // a run of banks: the first one, and above these bits its length - 1

// Of a byte that is skipped, and of taking turns.
struct Costs {
    int skip, turns;
};

template <Kind KIND>
constexpr int SLOT_LOADS = KIND == PACKED ? 2 : 1;  // for each gather
template <Kind KIND>
constexpr int LOADS = orders_of(KIND) / 4 * SLOT_LOADS<KIND>;  // of a tile

// Bit k becomes bit k + by, modulo 32.
__device__ inline uint32_t turned(uint32_t banks, int by) {
    return __funnelshift_l(banks, banks, by & 31);
}

// The run of banks that each load of the lane's stream reads, if it starts with bank 0. Words of a
// stream lie side by side, and those of four groups in a row touch each other.
template <Kind KIND>
struct Reads {
    uint32_t run[LOADS<KIND>];

    __device__ explicit Reads(Shared<uint32_t> metadata) {
        uint32_t at = 0;
#pragma unroll
        for (int order = 0; order < orders_of(KIND); order++) {
            int word = metadata_word(lane_id() / TILE_STREAMS, lane_id() % TILE_STREAMS, order);
            uint32_t code = metadata.load(word);
            if (KIND == SIXES) code &= metadata.load(word + 2 * TILES);  // of step 1
            code = code >> 4 * (order % 8) & 15;
#pragma unroll
            for (int slot = 0; slot < SLOT_LOADS<KIND>; slot++) {
                uint32_t bank = (at + 2 * slot) / 4;
                uint32_t& mine = run[order / 4 * SLOT_LOADS<KIND> + slot];
                if (order % 4 == 0) mine = bank;
                if (order % 4 == 3) mine |= (bank - mine) << RUN_BITS;
            }
            int first = (code & 3) != 3, second = code >> 2 != 3;
            at += KIND == PACKED ? 2 * first + 2 * second : 4 * second;
        }
    }
};

// Of load q of a packed stream that starts with the second half of bank 0 (ODD): slot 0 reads what
// slot 1 would read, and slot 1 the words after those of slot 0.
template <bool ODD>
__device__ int load_like(int q) {
    return ODD ? q ^ 1 : q;
}
template <bool ODD>
__device__ int banks_on(int q) {
    return ODD && q % 2;
}

// What placed streams read, by load and tile: level n holds the banks that more than n of them
// read, spread n the banks from which on a run of n + 1 meets one that no other bank exceeds.
template <Kind KIND>
class Piles {
    static constexpr int PILES = LOADS<KIND> * TILES, STRIDE = PILES + TILES;
    Shared<uint32_t> level_, spread_;
    Shared<uint16_t> run_;

  public:
    struct Memory {
        uint32_t level[TILE_STREAMS * PILES], spread[LONGEST * STRIDE];
        uint16_t run[LOADS<KIND> * LANES];
    };
    __device__ Piles(Memory& memory, const Reads<KIND>& reads)
        : level_(in_shared(memory.level)), spread_(in_shared(memory.spread)),
          run_(in_shared(memory.run)) {
        for (int i = lane_id(); i < TILE_STREAMS * PILES; i += LANES) level_.store(i, 0);
        for (int i = lane_id(); i < LONGEST * STRIDE; i += LANES) spread_.store(i, ~0u);
#pragma unroll
        for (int q = 0; q < LOADS<KIND>; q++)
            run_.store(q * LANES + lane_id(), uint16_t(reads.run[q]));
        __syncwarp();
    }
    // Bit k: load q of the lane's tile, which reads this run, takes one more wavefront if the
    // stream starts with bank k.
    __device__ uint32_t more(int q, uint32_t run) const {
        int pile = q * TILES + lane_id() / TILE_STREAMS;
        return turned(spread_.load((run >> RUN_BITS) * STRIDE + pile), -int(run));
    }
    // Adds the stream of lane `chosen`, from bank `bank` on; each lane counts for one load of its
    // tile.
    template <bool ODD>
    __device__ void add(int bank, int chosen) const {
        int q = lane_id();
        if (q < LOADS<KIND>) {
            uint32_t run = run_.load(load_like<ODD>(q) * LANES + chosen);
            int first = int(run & 31) + banks_on<ODD>(q) + bank;
            uint32_t banks = (2u << (run >> RUN_BITS)) - 1;
            raise(q * TILES + chosen / TILE_STREAMS, turned(banks, first));
        }
        __syncwarp();
    }

  private:
    __device__ void raise(int pile, uint32_t banks) const {
        uint32_t fullest = 0;
#pragma unroll
        for (int n = 0; n < TILE_STREAMS; n++) {
            uint32_t before = level_.load(n * PILES + pile), now = before | banks;
            level_.store(n * PILES + pile, now);
            if (now) fullest = now;
            banks &= before;
        }
        uint32_t meets = fullest;
#pragma unroll
        for (int n = 0; n < LONGEST; n++) {
            spread_.store(n * STRIDE + pile, meets);
            meets |= turned(fullest, -(n + 1));
        }
    }
};

// Counts, one for each bit: bit k of plane n is bit n of the kth count.
template <int MOST>
struct Counts {
    static constexpr int PLANES = MOST < 16 ? 4 : 5;
    uint32_t plane[PLANES] = {};

    // Adds one where `bits` are set; `before`: how often this was done.
    __device__ void add(uint32_t bits, int before) {
#pragma unroll
        for (int n = 0; n < PLANES && (before + 1) >> n; n++) {
            uint32_t carry = plane[n] & bits;
            plane[n] ^= bits;
            bits = carry;
        }
    }
    // The least of the counts whose bits are in `among`, which becomes those that have it.
    __device__ int least(uint32_t& among) const {
        int count = 0;
#pragma unroll
        for (int n = PLANES - 1; n >= 0; n--) {
            uint32_t lower = among & ~plane[n];
            if (lower) among = lower;
            else count += 1 << n;
        }
        return count;
    }
};

template <Kind KIND>
class Placement {
    Reads<KIND> reads_;
    Piles<KIND> piles_;
    int bytes_, first_;  // of the lane's stream; where streams may begin

  public:
    int start, end;  // of the lane's stream; of all of them

    __device__ Placement(Shared<uint32_t> metadata, typename Piles<KIND>::Memory& memory,
                         int bytes, int first)
        : reads_(metadata), piles_(memory, reads_), bytes_(bytes), first_(first), start(first),
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
            uint32_t best = best_of_lane(placed, reach, costs);
            best = __reduce_min_sync(ALL_LANES, best);
            __syncwarp();  // all lanes have read the piles
            int chosen = best % 256, at = end + best / 256 % 256;
            if (KIND == PACKED && at / 2 % 2) piles_.template add<true>(at / 4, chosen);
            else piles_.template add<false>(at / 4, chosen);
            if (lane_id() == chosen) start = at;
            end = at + __shfl_sync(ALL_LANES, bytes_, chosen);
            placed |= 1u << chosen;
        }
    }
    // Least cost of the lane's stream << 16 | bytes skipped << 8 | lane; all ones if it is placed.
    __device__ uint32_t best_of_lane(uint32_t placed, int reach, Costs costs) const {
        if (placed >> lane_id() & 1) return ~0u;
        uint32_t of_tile = placed >> lane_id() / TILE_STREAMS * TILE_STREAMS & 0xff;
        int saved = costs.turns * __popc(of_tile);  // the others' costs are of 8 streams left
        uint32_t best = cheapest<false>(reach, costs.skip);
        if (KIND == PACKED) best = min(best, cheapest<true>(reach, costs.skip));
        return best + (uint32_t(saved) << 16 | lane_id());
    }
    // Least cost << 16 | bytes skipped << 8, of starts with the first, or ODD, second half of a
    // bank. Of equal costs those that skip less: a start further on must save wavefronts.
    template <bool ODD>
    __device__ uint32_t cheapest(int reach, int skip_cost) const {
        Counts<LOADS<KIND>> wavefronts;
#pragma unroll
        for (int q = 0; q < LOADS<KIND>; q++)
            wavefronts.add(piles_.more(q, reads_.run[load_like<ODD>(q)] + banks_on<ODD>(q)), q);
        int at = end + (end / 2 % 2 != ODD ? 2 : 0);
        uint32_t best = 0xffffff00, starts = (1u << (end + reach - at + 4) / 4) - 1;
        for (auto& plane : wavefronts.plane) plane = turned(plane, -(at / 4));
        while (starts) {
            uint32_t cheap = starts;
            int more = wavefronts.least(cheap);
            uint32_t nearer = (cheap & -cheap) - 1;  // starts before the first of them
            int skip = at + 4 * __popc(nearer) - end;
            uint32_t cost = WAVEFRONT_COST * more + skip_cost * skip;
            best = min(best, cost << 16 | uint32_t(skip) << 8);
            starts &= nearer;
        }
        return best;
    }
};

}  // namespace lscd::zero_row_24
