// What streams of a chunk read of each bank, for zero_row_24_place.cuh: bit k of a register stands for bank k.
#pragma once
#include "zero_row_24_nested.cuh"

namespace lscd::zero_row_24 {

constexpr int LONGEST = 4;   // banks that a load of a stream reads: a word for each of four groups
constexpr int RUN_BITS = 8;  // a run of banks: the first one, and above these bits its length - 1

template <Kind KIND>
constexpr int SLOT_LOADS = KIND == PACKED ? 2 : 1;  // for each gather
template <Kind KIND>
constexpr int WORD_LOADS = orders_of(KIND) / 4 * SLOT_LOADS<KIND>;  // of tiles side by side, at most
template <Kind KIND>
constexpr int LOADS = WORD_LOADS<KIND> + (KIND == NESTED ? LEVEL_ORDERS / 4 : 0);

// Bit k becomes bit k + by, or k - by, modulo 32.
__device__ inline uint32_t turned(uint32_t banks, int by) {
    return __funnelshift_l(banks, banks, by);
}
__device__ inline uint32_t turned_back(uint32_t banks, int by) {
    return __funnelshift_r(banks, banks, by);
}

// The run of banks that each load of the lane's stream reads, if it starts with bank 0. Words of a
// stream lie side by side, and those of four groups in a row touch each other; values of level 1 lie behind them.
template <Kind KIND>
struct Reads {
    uint32_t run[LOADS<KIND>];

    __device__ explicit Reads(Shared<uint32_t> metadata) {
        uint32_t at = 0;
        uint64_t sends = 0;
#pragma unroll
        for (int order = 0; order < orders_of(KIND); order++) {
            int nth = KIND == SIXES ? nibble_of_six(order, 0) : order;
            int word = metadata_word(lane_id() / TILE_STREAMS, lane_id() % TILE_STREAMS, nth);
            uint32_t code = metadata.load(word);
            if (KIND == SIXES) code &= metadata.load(word + 2 * TILES);  // of step 1
            code = code >> 4 * (order % 8) & 15;
            if (KIND == NESTED) {
                sends |= uint64_t(is_sending(code)) << order;
                code = nibble_of_code(code);
            }
#pragma unroll
            for (int slot = 0; slot < SLOT_LOADS<KIND>; slot++)
                reads(order / 4 * SLOT_LOADS<KIND> + slot, order, at + 2 * slot);
            int first = (code & 3) != 3, second = code >> 2 != 3;
            at += KIND == PACKED ? 2 * first + 2 * second : 4 * second;
        }
#pragma unroll
        for (int order = 0; KIND == NESTED && order < LEVEL_ORDERS; order++) {
            reads(WORD_LOADS<KIND> + order / 4, order, at);
            at += 2 * values_of_level(sends, order);
        }
    }

  private:
    // The value of a group, which is one of a load's four.
    __device__ void reads(int load, int order, uint32_t at) {
        uint32_t bank = at / 4;
        if (order % 4 == 0) run[load] = bank;
        if (order % 4 == 3) run[load] |= (bank - run[load]) << RUN_BITS;
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
    // Bit k: load q of the lane's tile, which reads such a run, `further` banks on, takes one more wavefront if
    // the stream starts with bank k.
    __device__ uint32_t more(int q, uint32_t run, int further) const {
        int pile = q * TILES + lane_id() / TILE_STREAMS;
        return turned_back(spread_.load((run >> RUN_BITS) + pile), run + further);
    }
    // Adds the stream of lane `chosen`, from bank `bank` on, to `others` of its tile; each lane counts for one
    // of so many loads.
    template <bool ODD>
    __device__ void add(int bank, int chosen, int others, int loads) const {
        int q = lane_id();
        if (q < loads) {
            uint32_t run = run_.load(load_like<ODD>(q) * LANES + chosen);
            int first = int(run & 31) + banks_on<ODD>(q) + bank;
            uint32_t banks = (2u << (run >> RUN_BITS)) - 1;
            raise(q * TILES + chosen / TILE_STREAMS, turned(banks, first), others);
        }
        __syncwarp();
    }

  private:
    __device__ void raise(int pile, uint32_t banks, int others) const {
        uint32_t fullest = 0;
        for (int n = 0; n <= others; n++) {
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
    static_assert(MOST == 4 || MOST == 8 || MOST == 16);
    uint32_t plane[PLANES];

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

}  // namespace lscd::zero_row_24
