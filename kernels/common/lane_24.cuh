// What products and encoders of lane_24_strips share: where the parts of a chunk are, in bytes
// (kernels/cpu/encode/lane_24_strips.h), and where the weights of a word go.
#pragma once
#include "ptx.cuh"

namespace lscd {

struct LaneChunk {
    static constexpr int HALVES = 512, HALVES_OF_STEP = 128, HEADER = 768, FAR_AT = 772, BANKS = 776;
    static constexpr int ENTRIES = 808, STEP_BYTES = 40, NEAR_STEPS = 12;
    // The last near steps are multiplied four at a time; their metadata stand behind all near ones.
    static constexpr int FOUR = 4, FOUR_BYTES = 32;
    // Of a step of entries: pairs, two values and two rows each, then columns.
    static constexpr int PAIR_BYTES = 8, ROWS_OF_PAIR = 4, COLUMNS_AT = 32;
    template <class Int>
    __host__ __device__ static constexpr Int value_at(Int place) {
        return place / 2 * PAIR_BYTES + place % 2 * 2;
    }
    static constexpr int LINE_SHIFT = 7, LINE_BYTES = 1 << LINE_SHIFT;

    // What the header states: near steps that are in no four, fours, steps behind lines.
    static constexpr int FOURS_AT = 4, FAR_STEPS_AT = 6;  // bits
    __host__ __device__ static constexpr uint32_t single_steps(uint32_t stated) { return stated & 15; }
    __host__ __device__ static constexpr uint32_t fours(uint32_t stated) { return stated >> FOURS_AT & 3; }
    __host__ __device__ static constexpr uint32_t far_steps(uint32_t stated) { return stated >> FAR_STEPS_AT; }
    __host__ __device__ static constexpr bool has_more(uint32_t stated) { return stated >> FOURS_AT; }
    __host__ __device__ static constexpr uint32_t near_steps(uint32_t stated) {
        return single_steps(stated) + FOUR * fours(stated);
    }
};

// Nibbles of metadata: of a group that has no half of a word; whose group has the first half, and the second
// one, bit `nibble` of each.
constexpr uint32_t ABSENT = 2;
constexpr uint32_t HAVE_FIRST_HALF = 0x7739, HAVE_SECOND_HALF = 0xfb52;

// Selectors of PRMT for the four columns of a group, a byte each: of its values' halves, or zeros.
template <class Int>
__device__ uint32_t group_selectors(Int nibble) {
    uint32_t chosen = 0;
#pragma unroll
    for (Int i = 0; i < 4; i++) {
        bool first = HAVE_FIRST_HALF >> nibble & 1 && nibble % 4 == i;
        bool second = HAVE_SECOND_HALF >> nibble & 1 && nibble / 4 == i;
        chosen |= (first ? 0x10u : second ? 0x32u : 0x44u) << 8 * i;
    }
    return chosen;
}

// Of a lane's 16 groups of a step: the bit of `halves` that says whether group i begins a word. The one of the
// second half is eight above it. And all bits of first halves.
constexpr uint32_t FIRST_HALVES = 0x00ff00ff;
__device__ constexpr int first_half_bit(int i) { return 16 * (i % 2) + 7 - i / 2; }

// The halves of a word that group i has, as ones.
__device__ inline uint32_t own_halves(uint32_t halves, int i) {
    return prmt(halves << i / 2, 0, i % 2 ? 0xbbaa : 0x9988);
}

// Where a group's word stands, if that of the group before stands at `at`: a line below, if it begins one.
__device__ inline Address next_word(Address at, uint32_t own_halves) {
    constexpr int OF_FIRST_BYTE = uint8_t(-LaneChunk::LINE_BYTES);  // which is 0 or -1
    return Address(__dp4a(int(own_halves), OF_FIRST_BYTE, int(at)));
}

}  // namespace lscd
