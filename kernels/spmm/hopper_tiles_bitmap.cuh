// A warp that decodes a strip of TCA-BME (formats/tca_bme.py): of a GroupTile of 64 x 64, which its thread
// block has in shared memory (hopper_tiles_groups.cuh), 16 rows become their part of a dense tile, zeros
// included.
//
//   open      a lane has a row of a BitmapTile in each of the strip's TCTiles: eight columns, a byte. Values
//             lie behind those of the lanes before, counted for all four TCTiles at once, a byte each
//   extract   half a row, four columns: two or three words, shifted by half a word where values begin in the
//             middle of one; by a table of selectors they become two registers
#pragma once
#include "../common/stages.cuh"
#include "hopper_tiles_groups.cuh"
#include "hopper_tiles_strip.cuh"

namespace lscd {
namespace {

// Selectors of PRMT for four columns by their bits: two columns of a word of values (zeros: the other
// operand), and two of both words. Of less than four values the last half of these is 0.
__device__ inline uint32_t row_selectors(uint32_t bits) {
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t rank = __popc(bits & ((1u << i) - 1)), zeros = i < 2 ? 0x44 : 0x77;
        chosen |= (bits >> i & 1 ? 0x10 + 0x22 * rank : zeros) << 8 * i;
    }
    return chosen;
}

// A lane's rows of a strip, one in each TCTile. Positions of values are bits of shared memory: a shift takes
// the lower five of them, an address the others.
struct StripRows {
    static constexpr int TILES = 4, HALVES = 2 * TILES;
    static constexpr uint32_t VALUE = 16;  // bits

    uint32_t bits, lefts;  // of each row, a byte: its bitmap, and how many values its left half has
    uint32_t begins[TILES];

    // Where the values of half a row begin.
    __device__ __forceinline__ uint32_t begin(int half) const {
        uint32_t left = begins[half / 2];
        return half % 2 ? __dp4a(lefts, VALUE << half / 2 * 8, left) : left;
    }
};

// Rows whose values are not found yet: in HALVES steps. Between them a warp extracts the strip before, instead
// of waiting for what other lanes tell.
struct OpeningStrip : StripRows {
    uint32_t own, before, first;  // values of the lane's rows, of those of lanes before; where all begin

    __device__ __forceinline__ void load(Address bitmaps, Address values, int lane, bool exists) {
        bits = 0;
#pragma unroll
        for (int i = 0; i < TILES; i++) bits |= ld_shared_u8(bitmaps + i * 32 + lane) << 8 * i;
        if (!exists) bits = 0;
        first = values * 8;
    }
    __device__ __forceinline__ void proceed(int step) {
        if (step == 0) count();
        else if (step <= 5) before = add_below(before, 1 << (step - 1));
        else if (step == 6) before -= own;  // of 31 lanes at most: 248
        else find();
    }
    __device__ __forceinline__ void count() {
        uint32_t twos = bits - (bits >> 1 & 0x55555555);
        uint32_t fours = (twos & 0x33333333) + (twos >> 2 & 0x33333333);
        lefts = fours & 0x0f0f0f0f;
        own = before = lefts + (fours >> 4 & 0x0f0f0f0f);
    }
    // Behind those of the lanes before, in a TCTile, and those of all lanes in the TCTiles before.
    __device__ __forceinline__ void find() {
        uint32_t others = __shfl_sync(~0u, before, 31), last = __shfl_sync(~0u, own, 31);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint32_t tiles = 0x01010101u * VALUE & ((1u << 8 * i) - 1);
            begins[i] = __dp4a(before, VALUE << 8 * i, __dp4a(others, tiles, __dp4a(last, tiles, first)));
        }
    }
};

template <int BLOCK_N>
struct BitmapDecoder : StripWarp<BLOCK_N>, GroupPair {
    using Has = Tiles<BLOCK_N>;
    using Base = StripWarp<BLOCK_N>;
    using Base::p, Base::memory, Base::warp, Base::lane;

    // With few registers rows are stored as they come, and the next strip is opened behind them.
    static constexpr bool FEW = Has::DECODING < 64;

    uint32_t selectors = row_selectors(lane % 16);
    Address place = place_of(lane);

    __device__ BitmapDecoder(const WgmmaProblem& p, Address memory) : Base(p, memory) {}
    // Of a lane's row in a strip, in its first TCTile; others, two bits of a swizzle apart.
    __device__ static Address place_of(int lane) {
        int row = lane % 16, half = lane / 16;
        return row * 128 + (half ^ row % 8) * 16;
    }
    // Loads of words may reach behind values, where nobody has written in the beginning.
    __device__ void prepare() const {
        if (threadIdx.x < p.stages) {
            mbarrier_init(groups_are_there(memory, threadIdx.x), ARRIVALS);
            mbarrier_init(groups_are_free(memory, threadIdx.x), DECODING_WARPS);
        }
        for (int at = 16 * threadIdx.x; at < p.stages * p.stage_bytes; at += 16 * 32 * DECODING_WARPS)
            st_shared_v4(memory + Has::CHUNKS + at, {0, 0, 0, 0});
        async_proxy_fence();
    }

    // Of a place of the ring, the warp's strip of one of its GroupTiles.
    __device__ __forceinline__ void load(OpeningStrip& strip, uint32_t place, int group) const {
        Address from = memory + Has::CHUNKS + place * p.stage_bytes;
        uint2 header = ld_shared_v2(from + HEADER);
        Address values = from + VALUES + 2 * ld_shared(from + STRIPS + group * OFFSETS + 4 * warp);
        Address bitmaps = from + group * BITMAPS + warp * (BITMAPS / OWN_STRIPS);
        strip.load(bitmaps, values + (group ? header.y : 0), lane, group < int(header.x));
    }
    __device__ __forceinline__ uint2 extract(const StripRows& strip, int half) const {
        if (left_out(Stage::extract)) return {};
        uint32_t begin = strip.begin(half), at = begin / 32 * 4;
        uint32_t first = ld_shared(at), second = ld_shared(at + 4);
        uint32_t low = __funnelshift_r(first, second, begin);
        uint32_t high = last_of_four(second, at, begin, ~strip.bits & 15u << 4 * half);
        // A shuffle reads the lower five bits of a lane's number, and all selectors are there twice.
        uint32_t chosen = __shfl_sync(~0u, selectors, strip.bits >> 4 * half);
        return {prmt(low, 0, chosen), prmt(low, high, chosen >> 16)};
    }
    __device__ __forceinline__ void put(uint2 left, uint2 right, Address to, int tile) const {
        Address place = FEW ? place_of(anew(lane)) : this->place;
        uint4 row{left.x, left.y, right.x, right.y};
        if (!left_out(Stage::extract)) st_shared_v4(to + (place ^ tile * 32), row);
    }
    // A strip, to the tile of a step, while the next one is opened: of a GroupTile in a place of the ring.
    __device__ __forceinline__ void decode(const StripRows& strip, uint32_t step, OpeningStrip& next,
                                           uint32_t place, int group) const {
        constexpr int TILES = StripRows::TILES, HALVES = StripRows::HALVES;
        if (!FEW) load(next, place, group);
        auto target = this->target(step);
        uint2 rows[HALVES];
        if (FEW) this->wait_for(target);
#pragma unroll
        for (int i = 0; i < HALVES; i++) {
            rows[i] = extract(strip, i);
            if (FEW && i % 2) put(rows[i - 1], rows[i], memory + target.at, i / 2);
            if (!FEW) next.proceed(i);
        }
        if (!FEW) this->wait_for(target);
#pragma unroll
        for (int i = 0; i < TILES; i++)
            if (!FEW) put(rows[2 * i], rows[2 * i + 1], memory + target.at, i);
        this->send(target);
        if (FEW) open(next, place, group);
    }
    __device__ __forceinline__ void open(OpeningStrip& strip, uint32_t place, int group) const {
        load(strip, place, group);
#pragma unroll
        for (int i = 0; i < StripRows::HALVES; i++) strip.proceed(i);
    }

    __device__ int rounds() const {
        int rounds = 0;
        for (Rounds all(p); all.more(); all.segment++, all.open()) rounds += all.last - all.round;
        return rounds;
    }
    __device__ void run() const {
        GroupFetcher<Has::CHUNKS, !FEW> groups(p, memory);
        groups.fill();
        uint32_t place = 0, phase = 0;
        mbarrier_wait(groups_are_there(memory, place), phase);
        OpeningStrip now, second;
        open(now, place, 0);
        int rounds = this->rounds();
#pragma unroll 1
        for (int round = 0; round < rounds; round++) {
            decode(now, GROUPS * round, second, place, 1);
            groups.refill(round);
            Address free = groups_are_free(memory, place);
            if (++place == p.stages) place = 0, phase ^= 1;
            if (round + 1 < rounds) mbarrier_wait(groups_are_there(memory, place), phase);
            decode(second, GROUPS * round + 1, now, place, 0);
            if (lane == 0) mbarrier_arrive(free);  // all have met behind what they read
        }
    }
};

struct Bitmaps {
    template <int BLOCK_N>
    using Decoder = BitmapDecoder<BLOCK_N>;
    static constexpr int STEPS_OF_ROUND = GroupPair::GROUPS, RINGS = 1;

    static bool fits(const WgmmaProblem& p) {
        bool has_room = p.stage_bytes % 16 == 0 && p.stage_bytes > GroupPair::VALUES;
        return p.stages >= 2 && p.stages <= MOST_CHUNKS && has_room;
    }
};

}  // namespace
}  // namespace lscd
