// A warp that decodes a strip of lane_24_strips.
//
//   extract     groups of four columns of a quarter: a lane has eight, four of either step of wgmma.sp
//               a word, and which weights stand where -> two registers, by a table of selectors
//   entries     of the quarter: each lane has two of the near ones in registers, others are read again
#pragma once
#include "../common/lane_24.cuh"
#include "../common/stages.cuh"
#include "hopper_tiles_chunks.cuh"

namespace lscd {
namespace {

// A weight that is in no group, where its part of a round has it, and which part that is: one register.
struct LoneWeight {
    static constexpr int AT = 16, QUARTER = 27;  // bits
    uint32_t bits = ~0u;                         // of none

    __device__ LoneWeight() {}
    // `row`: one bit of 16, none where it is not in use.
    __device__ LoneWeight(uint32_t value, uint32_t row, uint32_t column) {
        uint32_t r = __popc(row - 1), at = r * 128 + ((column / 8 % 8 ^ r % 8) << 4) + column % 8 * 2;
        if (row) bits = value | at << AT | column / STEP_COLS << QUARTER;
    }
    __device__ void store(int quarter, Address to) const {
        if (bits >> QUARTER == uint32_t(quarter)) st_shared_u16(to + (bits >> AT) % STRIP_BYTES, bits);
    }
};

// Where the weights of a chunk stand: for each step and half of columns 32 bits of each quarter, of both halves
// of rows. Four lanes want the same: each has all of it, or, where registers are few, a fourth. `first` is the
// lane that has the first one's, in the order of steps of the lane that asks.
template <bool SHARED>
struct Nibbles {
    static constexpr int HELD = SHARED ? 1 : 4;
    uint4 of[HELD];

    __device__ void load(Address metadata, int lane, int first) {
#pragma unroll
        for (int i = 0; i < HELD; i++) of[i] = ld_shared_v4(metadata + (SHARED ? lane : first ^ i) * 16);
    }
    template <int QUARTER>
    __device__ uint32_t quarter(int i, int first) const {
        const uint4& four = of[i % HELD];
        uint32_t own = QUARTER == 0 ? four.x : QUARTER == 1 ? four.y : QUARTER == 2 ? four.z : four.w;
        return SHARED ? __shfl_sync(~0u, own, first ^ i) : own;
    }
};

template <class Has>
struct LaneDecoder : ChunkWarp<Has, LaneDecoder<Has>>, LaneChunk {
    using Base = ChunkWarp<Has, LaneDecoder<Has>>;
    using Base::Base, Base::p, Base::memory, Base::lane, Base::ring;

    static constexpr int PLACES = 8, NEAR_OF_LANE = 2;  // entries of a step; near ones that a lane keeps
    static_assert(NEAR_STEPS * PLACES > NEAR_OF_LANE * 32, "who has far ones has more than lanes keep");
    static constexpr int GROUPS = 4;  // of a lane, in a quarter of a step

    uint32_t selectors = group_selectors(uint32_t(lane % 16));
    // Steps of wgmma.sp, whose groups a lane stores one after the other: every second row begins with the
    // second one, so that what half a warp stores at once lies in different banks.
    int swapped = lane / 4 % 2;
    Address place = place_of(lane);

    // Of a lane's first group in a quarter's strip; others, two bits of a swizzle apart.
    __device__ static Address place_of(uint32_t lane) {
        uint32_t g = lane / 4, t = lane % 4;
        return g * 128 + ((4 * (g % 2) + t / 2) ^ g) * 16 + t % 2 * 8;
    }

    __device__ int first_of_four() const { return lane & ~3 ^ 2 * swapped; }

    // --- a chunk ---

    struct Chunk {
        // In the lane's order of steps: halves of words that its groups have; a line above its first words.
        uint32_t halves[2];
        Address words[2];
        Nibbles<Has::WIDE> nibbles;
        bool more;  // whether it has more entries than lanes keep
        LoneWeight near[NEAR_OF_LANE];
    };
    __device__ Chunk open(Address at) const {
        Chunk c;
        uint32_t stated = ld_shared(at + HEADER), near = near_steps(stated >> 16);
        Address halves = at + HALVES + lane * 4;
        uint32_t first = ld_shared(halves), second = ld_shared(halves + HALVES_OF_STEP);
        c.halves[0] = swapped ? second : first, c.halves[1] = swapped ? first : second;
        Address words = at + (stated & 0xffff) - LINE_BYTES + lane * 4;
        Address below = words + __popc(first & FIRST_HALVES) * LINE_BYTES;
        below = __shfl_sync(~0u, below, ld_shared_u8(at + BANKS + lane));
        c.words[0] = swapped ? below : words, c.words[1] = swapped ? words : below;
        c.more = near * PLACES > NEAR_OF_LANE * 32;  // far ones too, then
        c.nibbles.load(at, lane, first_of_four());
#pragma unroll
        for (int i = 0; i < NEAR_OF_LANE; i++) {
            uint32_t number = lane + 32 * i;
            if (number < near * PLACES) c.near[i] = near_entry(at, number);
        }
        return c;
    }
    __device__ static LoneWeight near_entry(Address chunk, uint32_t number) {
        uint32_t place = number % PLACES;
        Address from = chunk + ENTRIES + number / PLACES * STEP_BYTES;
        return {ld_shared_u16(from + value_at(place)), ld_shared_u16(from + value_at(place) + ROWS_OF_PAIR),
                ld_shared_u8(from + COLUMNS_AT + place)};
    }

    // extract: of a quarter the lane's groups of a step, by halves of columns and halves of rows.
    template <int QUARTER>
    __device__ __forceinline__ void extract(const Chunk& c, int step, uint2 (&groups)[GROUPS]) const {
        // Of groups before the quarter's, each of which has two bits in a byte.
        constexpr uint32_t BEFORE = (0xff00ff00 >> 2 * QUARTER) & FIRST_HALVES;
        Address word = c.words[step] + __popc(c.halves[step] & BEFORE) * LINE_BYTES;
        uint32_t words[GROUPS], of_lanes = 0;
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            int bit = first_half_bit(GROUPS * QUARTER + i);
            word = add_bit<LINE_SHIFT>(word, one_bit(c.halves[step], bit), bit);
            words[i] = ld_shared(word);
        }
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            int half = i / 2, row_half = i % 2;
            if (row_half == 0) of_lanes = c.nibbles.template quarter<QUARTER>(2 * step + half, first_of_four());
            // A shuffle reads the lower five bits of a lane's number, and all tables are there twice.
            int nibble = of_lanes >> (lane % 4 * 4 + row_half * 16) & 31;
            uint32_t chosen = __shfl_sync(~0u, selectors, nibble);
            groups[i] = {prmt(words[i], 0, chosen), prmt(words[i], 0, chosen >> 16)};
        }
    }
    __device__ __forceinline__ void put_groups(const uint2 (&groups)[GROUPS], int step, Address to) const {
        Address first = Has::WIDE ? place_of(anew(lane)) : place;  // again, where registers are few
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            st_shared_v2((to + first ^ (2 * step + i / 2) * 32) + i % 2 * 1024, groups[i]);
    }
    __device__ __forceinline__ void put_entries(const Chunk& c, Address chunk, int quarter, Address to) const {
#pragma unroll
        for (int i = 0; i < NEAR_OF_LANE; i++) c.near[i].store(quarter, to);
        if (!uniform(c.more)) return;
        uint32_t stated = ld_shared(chunk + HEADER) >> 16, near = near_steps(stated), steps = far_steps(stated);
#pragma unroll 1
        for (uint32_t i = NEAR_OF_LANE * 32 + lane; i / PLACES < near; i += 32) near_entry(chunk, i).store(quarter, to);
        const uint8_t* far = p.data() + int64_t(ld_shared(chunk + FAR_AT)) * 16;
#pragma unroll 1
        for (uint32_t i = lane; i / PLACES < steps; i += 32) {
            const uint8_t* step = far + i / PLACES * STEP_BYTES;
            auto* at = reinterpret_cast<const uint16_t*>(step + value_at(i % PLACES));
            uint32_t column = __ldg(step + COLUMNS_AT + i % PLACES);
            LoneWeight(__ldg(at), __ldg(at + ROWS_OF_PAIR / 2), column).store(quarter, to);
        }
    }

    // --- tiles ---

    // A quarter, in this block's tile and in the other's, once both have a place for it.
    template <int QUARTER>
    __device__ __forceinline__ void decode_quarter(const Chunk& c, int ring_place, uint32_t round) const {
        constexpr int STEPS = 2;  // of wgmma.sp
        constexpr bool AHEAD = Has::DECODES_AHEAD, DECODES = !left_out(Stage::extract);
        auto target = this->target(round * STEPS_OF_ROUND + QUARTER);
        Address to = memory + target.at;
        uint2 groups[STEPS][GROUPS];
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            if (DECODES && AHEAD) extract<QUARTER>(c, i, groups[i]);
        this->wait_for(target);
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            if (DECODES && !AHEAD) extract<QUARTER>(c, i, groups[i]);
            if (DECODES) put_groups(groups[i], i, to);
        }
        __syncwarp();
        if (DECODES) put_entries(c, ring + anew(ring_place) * p.stage_bytes, QUARTER, to);
        this->send(target);
    }

    __device__ __forceinline__ void decode(uint32_t place, uint32_t round) const {
        Chunk c = open(ring + place * p.stage_bytes);
        decode_quarter<0>(c, place, round), decode_quarter<1>(c, place, round);
        decode_quarter<2>(c, place, round), decode_quarter<3>(c, place, round);
    }
};

struct Lanes {
    template <class Has>
    using Decoder = LaneDecoder<Has>;
    static constexpr int SETS = 1, STEPS_OF_ROUND = lscd::STEPS_OF_ROUND, RINGS = OWN_STRIPS;
    static constexpr bool LARGE_RINGS = false;

    static bool fits(const WgmmaProblem& p) { return p.stages == CHUNKS_UNDER_WAY; }
};

}  // namespace
}  // namespace lscd
