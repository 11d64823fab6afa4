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

// Bit k becomes bit k + by, or k - by, modulo 32.
__device__ inline uint32_t turned(uint32_t banks, int by) {
    return __funnelshift_l(banks, banks, by);
}
__device__ inline uint32_t turned_back(uint32_t banks, int by) {
    return __funnelshift_r(banks, banks, by);
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
    // A run as `more` wants it: above its first bank, how far away its spread stands.
    __device__ static uint32_t wanted(uint32_t run) {
        return (run >> RUN_BITS) * STRIDE << RUN_BITS | run % (1 << RUN_BITS);
    }
    // Bit k: load q of the lane's tile, which reads this run, `further` banks on, takes one more wavefront if
    // the stream starts with bank k.
    __device__ uint32_t more(int q, uint32_t wanted, int further) const {
        int pile = q * TILES + lane_id() / TILE_STREAMS;
        return turned_back(spread_.load((wanted >> RUN_BITS) + pile), wanted + further);
    }
    // Adds the stream of lane `chosen`, from bank `bank` on, to `before` others of its tile; each lane counts
    // for one load.
    template <bool ODD>
    __device__ void add(int bank, int chosen, int before) const {
        int q = lane_id();
        if (q < LOADS<KIND>) {
            uint32_t run = run_.load(load_like<ODD>(q) * LANES + chosen);
            int first = int(run & 31) + banks_on<ODD>(q) + bank;
            uint32_t banks = (2u << (run >> RUN_BITS)) - 1;
            raise(q * TILES + chosen / TILE_STREAMS, turned(banks, first), before);
        }
        __syncwarp();
    }

  private:
    __device__ void raise(int pile, uint32_t banks, int streams) const {
        uint32_t fullest = 0;
        for (int n = 0; n <= streams; n++) {
            uint32_t before = level_.load(n * PILES + pile), now = before | banks;
            level_.store(n * PILES + pile, now);
            if (now) fullest = now;
            banks &= before;
        }
        uint32_t meets = fullest;
#pragma unroll
        for (int n = 0; n < LONGEST; n++) {
            spread_.store(n * STRIDE + pile, meets);
            meets |= turned_back(fullest, n + 1);
        }
    }
};

// How many of MOST words have a bit: bit k of plane n is bit n of the kth count.
template <int MOST>
struct Counts {
    static constexpr int PLANES = MOST == 16 ? 5 : MOST == 8 ? 4 : 3;
    static_assert(MOST <= 4 || MOST == 8 || MOST == 16);
    uint32_t plane[PLANES] = {};

    __device__ explicit Counts(const uint32_t (&words)[MOST]) { add<MOST>(words, plane); }
    // Words of one weight: three become one of the same weight and a carry, of the next.
    template <int COUNT>
    __device__ static void add(const uint32_t* words, uint32_t* planes) {
        uint32_t carries[COUNT / 2 + 1], sum = words[0];
#pragma unroll
        for (int i = 1; i < COUNT; i += 2) {
            uint32_t a = words[i], b = i + 1 < COUNT ? words[i + 1] : 0;
            carries[i / 2] = sum & a | sum & b | a & b;
            sum ^= a ^ b;
        }
        *planes = sum;
        if constexpr (COUNT > 1) add<COUNT / 2>(carries, planes + 1);
    }
    // The counts of bits k to k + 3, in bytes.
    __device__ uint32_t four(int k) const {
        uint32_t counts = 0;
#pragma unroll
        for (int n = 0; n < PLANES; n++)
            counts += ((turned_back(plane[n], k) & 15) * 0x204081u & 0x01010101u) << n;
        return counts;
    }
};

template <Kind KIND>
class Placement {
    Reads<KIND> reads_;
    Piles<KIND> piles_;
    uint32_t wanted_[LOADS<KIND>];  // runs
    int bytes_, first_;             // of the lane's stream; where streams may begin

  public:
    int start, end;  // of the lane's stream; of all of them

    __device__ Placement(Shared<uint32_t> metadata, typename Piles<KIND>::Memory& memory,
                         int bytes, int first)
        : reads_(metadata), piles_(memory, reads_), bytes_(bytes), first_(first), start(first),
          end(first) {
#pragma unroll
        for (int q = 0; q < LOADS<KIND>; q++) wanted_[q] = Piles<KIND>::wanted(reads_.run[q]);
    }

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
            int before = __popc(of_tile(placed, chosen));
            if (KIND == PACKED && at / 2 % 2) piles_.template add<true>(at / 4, chosen, before);
            else piles_.template add<false>(at / 4, chosen, before);
            if (lane_id() == chosen) start = at;
            end = at + __shfl_sync(ALL_LANES, bytes_, chosen);
            placed |= 1u << chosen;
        }
    }
    // Of the streams in a mask, those of a lane's tile.
    __device__ static uint32_t of_tile(uint32_t streams, int lane) {
        return streams >> lane / TILE_STREAMS * TILE_STREAMS & 0xff;
    }
    // Least cost of the lane's stream << 16 | bytes skipped << 8 | lane; all ones if it is placed.
    __device__ uint32_t best_of_lane(uint32_t placed, int reach, Costs costs) const {
        if (placed >> lane_id() & 1) return ~0u;
        int saved = costs.turns * __popc(of_tile(placed, lane_id()));  // the others' costs are of 8 streams left
        auto even = wavefronts<false>();
        uint32_t best;
        if constexpr (KIND == PACKED) {
            auto odd = wavefronts<true>();
            best = min(cheapest<false>(even, reach, costs.skip), cheapest<true>(odd, reach, costs.skip));
        } else {
            best = cheapest<false>(even, reach, costs.skip);
        }
        return best + (uint32_t(saved) << 16 | lane_id());
    }
    // How many wavefronts more the lane's stream takes if it starts with each bank, its first or, ODD, second
    // half.
    template <bool ODD>
    __device__ Counts<LOADS<KIND>> wavefronts() const {
        uint32_t more[LOADS<KIND>];
#pragma unroll
        for (int q = 0; q < LOADS<KIND>; q++)
            more[q] = piles_.more(q, wanted_[load_like<ODD>(q)], banks_on<ODD>(q));
        return Counts<LOADS<KIND>>(more);
    }
    // Least cost << 16 | bytes skipped << 8, of such starts. Of equal costs those that skip less.
    template <bool ODD>
    __device__ uint32_t cheapest(const Counts<LOADS<KIND>>& wavefronts, int reach, int skip_cost) const {
        int skip = (end >> 1 & 1) != ODD ? 2 : 0;
        uint32_t best = 0xffffff00;
#pragma unroll 1
        for (; skip <= reach; skip += 16) {
            uint32_t counts = wavefronts.four(end + skip >> 2);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int skipped = skip + 4 * i, cost = WAVEFRONT_COST * (counts >> 8 * i & 255) + skip_cost * skipped;
                if (skipped <= reach) best = min(best, uint32_t(cost) << 16 | uint32_t(skipped) << 8);
            }
        }
        return best;
    }
};

}  // namespace lscd::zero_row_24
