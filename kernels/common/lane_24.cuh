// What products and encoders of lane_24_strips share: where the parts of a chunk are, in bytes
// (kernels/cpu/encode/lane_24_strips.h), and where the weights of a word go.
#pragma once
#include <cstdint>

namespace lscd {

struct LaneChunk {
    static constexpr int PRESENT = 512, HEADER = 640, FAR_AT = 644, BANKS = 648;
    static constexpr int ENTRIES = 680, STEP_BYTES = 40, NEAR_STEPS = 7;
    // Of a step of entries: pairs, two values and two rows each, then columns.
    static constexpr int PAIR_BYTES = 8, ROWS_OF_PAIR = 4, COLUMNS_AT = 32;
    template <class Int>
    __host__ __device__ static constexpr Int value_at(Int place) {
        return place / 2 * PAIR_BYTES + place % 2 * 2;
    }
    static constexpr int LINE_SHIFT = 7;
};

// Selectors of PRMT for the four columns of a group, a byte each: of its values' halves, or zeros.
template <class Int>
__device__ uint32_t group_selectors(Int nibble) {
    uint32_t chosen = 0;
#pragma unroll
    for (Int i = 0; i < 4; i++)
        chosen |= (nibble % 4 == i ? 0x10u : nibble / 4 == i ? 0x32u : 0x44u) << 8 * i;
    return chosen;
}

}  // namespace lscd
