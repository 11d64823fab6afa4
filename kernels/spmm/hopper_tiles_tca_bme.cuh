// A warp that decodes a strip of TCA-BME (formats/tca_bme.py): of a GroupTile of 64 x 64, which its thread
// block has in shared memory (hopper_tiles_groups.cuh), 16 rows become their part of a dense tile, zeros
// included.
//
//   open      a lane has a row of a BitmapTile in each of the strip's TCTiles: eight columns, a byte. Values
//             lie behind those of the lanes before, counted for all four TCTiles at once, a byte each
//   extract   half a row, four columns: two or three words, shifted by half a word where values begin in the
//             middle of one; by a table of selectors they become two registers
//
// Two sets of warps take GroupTiles in turns: to decode one is a long chain of loads and shuffles.
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
    __device__ __forceinline__ bool has_all(int half) const { return !(~bits & 15u << 4 * half); }
};

// Rows whose values are not found yet: in HALVES steps. Between them a warp extracts the strip before, instead
// of waiting for what other lanes tell.
struct OpeningStrip : StripRows {
    uint32_t own, before, first;  // values of the lane's rows, of those of lanes before; where all begin

    __device__ __forceinline__ void load(Address bitmaps, Address values, int lane) {
        bits = 0;
#pragma unroll
        for (int i = 0; i < TILES; i++) bits |= ld_shared_u8(bitmaps + i * 32 + lane) << 8 * i;
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

// Half a row: the words that have its values, and selectors of its columns. The third word is the first one of
// the next half, if that begins four values further on, and of no use if not.
struct HalfRow {
    uint32_t words[2], chosen;

    // A shuffle reads the lower five bits of a lane's number, and all selectors are there twice.
    __device__ __forceinline__ void look_up(const StripRows& strip, int half, uint32_t selectors) {
        Address at = strip.begin(half) / 32 * 4;
        words[0] = ld_shared(at), words[1] = ld_shared(at + 4);
        chosen = __shfl_sync(~0u, selectors, strip.bits >> 4 * half);
    }
    __device__ __forceinline__ uint2 extract(const StripRows& strip, int half, uint32_t third) const {
        uint32_t begin = strip.begin(half);
        uint32_t low = __funnelshift_r(words[0], words[1], begin);
        uint32_t high = __funnelshift_r(words[1], third, begin);
        if (!strip.has_all(half)) high &= 0xffff;
        return {prmt(low, 0, chosen), prmt(low, high, chosen >> 16)};
    }
};

template <class Has>
struct TcaBmeDecoder : StripWarp<Has>, GroupTile {
    using Base = StripWarp<Has>;
    using Base::p, Base::memory, Base::warp, Base::lane;
    static constexpr int TURNS = Has::TURNS, HALVES = StripRows::HALVES;
    static_assert(LEAST_GROUPS >= Has::A_PLACES + 2);

    uint32_t selectors = row_selectors(lane % 16);
    StripRows now;
    OpeningStrip next;
    HalfRow halves[2];  // one to be extracted, and the next

    __device__ TcaBmeDecoder(const WgmmaProblem& p, Address memory) : Base(p, memory) {}
    // Of a lane's row in a strip, in its first TCTile; others, two bits of a swizzle apart.
    __device__ static Address place_of(int lane) {
        int row = lane % 16, half = lane / 16;
        return row * 128 + (half ^ row % 8) * 16;
    }
    // Loads of words may reach behind values, where nobody has written in the beginning.
    __device__ void prepare() const {
        int thread = 32 * warp + lane;
        if (thread < p.stages) {
            mbarrier_init(group_is_there(memory, thread), 1);
            mbarrier_init(group_is_free(memory, thread), OWN_STRIPS);
        }
        for (int at = 16 * thread; at < p.stages * p.stage_bytes; at += 16 * 32 * Has::DECODING_WARPS)
            st_shared_v4(memory + Has::CHUNKS + at, {0, 0, 0, 0});
        async_proxy_fence();
    }

    // Of a place of the ring, the warp's strip.
    __device__ __forceinline__ void load_next(uint32_t place) {
        Address from = memory + Has::CHUNKS + place * p.stage_bytes;
        int strip = warp % OWN_STRIPS;
        Address values = from + VALUES + 2 * ld_shared(from + BITMAPS + 4 * strip);
        next.load(from + strip * (BITMAPS / OWN_STRIPS), values, lane);
    }
    __device__ __forceinline__ void load_half(int half) {
        if (!left_out(Stage::extract)) halves[half % 2].look_up(now, half, selectors);
    }
    __device__ __forceinline__ uint2 extract(int half) const {
        if (left_out(Stage::extract)) return {};
        uint32_t third = halves[(half + 1) % 2].words[0];
        if (half % 2) third = ld_shared_if(now.has_all(half), now.begin(half) / 32 * 4 + 8);
        return halves[half % 2].extract(now, half, third);
    }
    __device__ __forceinline__ void put(uint2 left, uint2 right, Address to, int tile) const {
        Address place = place_of(Has::FEW_TO_DECODE ? anew(lane) : lane);
        uint4 row{left.x, left.y, right.x, right.y};
        if (!left_out(Stage::extract)) st_shared_v4(to + (place ^ tile * 32), row);
    }
    __device__ __forceinline__ void go_on() {
        now = next;
        load_half(0);
    }
    // A strip, to the tile of a step, while values of the next one are found.
    __device__ __forceinline__ void decode(uint32_t step) {
        auto target = this->target(step);
        uint2 left;
#pragma unroll
        for (int i = 0; i < HALVES; i++) {
            if (i + 1 < HALVES) load_half(i + 1);
            uint2 half = extract(i);
            next.proceed(i);
            if (i == 1) this->wait_for(target);
            if (i % 2) put(left, half, memory + target.at, i / 2);
            left = half;
        }
        go_on();
        this->send(target);
    }

    __device__ int rounds() const {
        int rounds = 0;
        for (Rounds all(p); all.more(); all.segment++, all.open()) rounds += all.last - all.round;
        return rounds;
    }
    __device__ void open(const RingPlace& at) {
        mbarrier_wait(group_is_there(memory, at.number), at.parity);
        load_next(at.number);
    }
    // Rounds whose turn it is.
    __device__ void run() {
        GroupFetcher<Has> groups(p, memory, warp);
        groups.fill();
        int rounds = this->rounds(), round = warp / OWN_STRIPS;
        if (round >= rounds) return;
        RingPlace at;
        at.advance(round, p.stages);
        open(at);
#pragma unroll
        for (int i = 0; i < HALVES; i++) next.proceed(i);
        go_on();
#pragma unroll 1
        for (; round < rounds; round += TURNS) {
            uint32_t left = at.number;
            at.advance(TURNS, p.stages);
            if (round + TURNS < rounds) open(at);  // else the same strip again, which nobody takes
            decode(round);
            if (lane == 0) mbarrier_arrive(group_is_free(memory, left));  // all have met behind what they read
            groups.refill(round);
        }
    }
};

struct TcaBme {
    template <class Has>
    using Decoder = TcaBmeDecoder<Has>;
    static constexpr int SETS = 2, STEPS_OF_ROUND = 1, RINGS = 1;
    static constexpr bool LARGE_RINGS = false;

    static bool fits(const WgmmaProblem& p) {
        bool has_room = p.stage_bytes % 16 == 0 && p.stage_bytes > GroupTile::VALUES;
        bool known = p.stages >= LEAST_GROUPS && p.stages % SETS == 0;
        return known && p.stages <= MOST_CHUNKS && has_room;
    }
};

}  // namespace
}  // namespace lscd
