// Lane 2:4 in strips on the GPU: where chunks and their parts lie, which groups of four columns a
// lane has, and a chunk's weights in shared memory. The bytes are drawn in
// kernels/cpu/encode/lane_24_strips.h.
//
//   a warp: one chunk    a lane: 32 groups of four columns, in rows g = lane / 4 and g + 8
#pragma once
#include "../common/lane_24.cuh"
#include "chunk_16x256.cuh"

namespace lscd::lane_24 {
namespace {  // other formats have a Tile of their own

using namespace chunk_16x256;

constexpr int GROUPS = 32;  // of a lane
constexpr int HALVES = LaneChunk::HALVES, HEADER = LaneChunk::HEADER, STEPS = LaneChunk::ENTRIES;
constexpr int BANKS = LaneChunk::BANKS, GROUPS_OF_STEP = 16;
constexpr int STEP = LaneChunk::STEP_BYTES, PLACES = 8, NEAR = LaneChunk::NEAR_STEPS;
constexpr int FOUR = LaneChunk::FOUR, FOUR_BYTES = LaneChunk::FOUR_BYTES, WORDS_OF_FOUR = FOUR_BYTES / 4;
constexpr int LINE = LaneChunk::LINE_BYTES, MOST_LINES = 32;

__host__ __device__ constexpr int whole_lines(int bytes) { return (bytes + LINE - 1) / LINE * LINE; }

// Of a chunk: where its parts begin, in bytes.
struct Sizes {
    int lines, steps;

    __host__ __device__ constexpr Sizes(int lines, int steps) : lines(lines), steps(steps) {}
    __host__ __device__ constexpr int near() const { return steps < NEAR ? steps : NEAR; }
    __host__ __device__ constexpr int far() const { return steps - near(); }
    __host__ __device__ constexpr int fours() const { return near() / FOUR; }  // that there is room for
    __host__ __device__ constexpr int single() const { return near() - FOUR * fours(); }
    __host__ __device__ constexpr int fours_at() const { return STEPS + STEP * near(); }
    __host__ __device__ constexpr int near_end() const { return fours_at() + FOUR_BYTES * fours(); }
    __host__ __device__ constexpr int lines_at() const {
        return HEADER + whole_lines(near_end() - HEADER);
    }
    __host__ __device__ constexpr int far_from() const { return lines_at() + LINE * lines; }
    __host__ __device__ constexpr int far_bytes() const { return whole_lines(STEP * far()); }
    __host__ __device__ constexpr int bytes() const { return far_from() + far_bytes(); }
    // What the header states, with so many fours.
    __device__ uint32_t stated(int fours) const {
        int steps = near() - FOUR * fours | fours << LaneChunk::FOURS_AT | far() << LaneChunk::FAR_STEPS_AT;
        return uint32_t(lines_at() | steps << 16);
    }
};

// Steps for so many entries: near ones as they are, or one more to fill a four.
__host__ __device__ constexpr int steps_for(int entries) {
    int steps = (entries + PLACES - 1) / PLACES;
    return steps < NEAR && steps % FOUR == FOUR - 1 ? steps + 1 : steps;
}
// The place of a step's nth entry in a four, in the order of their rows; and the other way round.
__device__ inline int place_in_four(int n) { return (n & 2) << 1 | (n & 4) >> 1 | (n & 1); }
// Metadata of rows g and g + 8, of one entry, number i of a four, that has this bit of its row.
__device__ inline uint32_t metadata_of(int i, uint32_t row, int g) {
    if (!(i & 2)) return 0;  // the first and the third of four columns
    int group = i / 4, bit = group % 4 * 4 + group / 4 + i % 2 * 2;
    return (row >> g & 1) << bit | (row >> (g + 8) & 1) << (bit + 16);
}

constexpr int MOST_NEAR = Sizes(MOST_LINES, NEAR).bytes();  // a chunk without its far steps

// Bytes of a step, and of its parts.
__device__ inline int near_at(int step) { return STEPS + STEP * step; }
__device__ inline int value_at(int place) { return LaneChunk::value_at(place); }
__device__ inline int row_at(int place) { return value_at(place) + LaneChunk::ROWS_OF_PAIR; }
__device__ inline int column_at(int place) { return LaneChunk::COLUMNS_AT + place; }

// The lane's group `order` is (step, tile, half, r), from the highest bit on.
__device__ inline int row_of(int order) { return lane_id() / 4 + 8 * (order & 1); }
__device__ inline int group_of(int order) {
    int tile = order >> 2 & 3, step = order >> 4, half = order >> 1 & 1;
    return (2 * tile + step) * 8 + 4 * half + lane_id() % 4;
}
// The word of metadata with the nibbles of four lanes' groups `order`, r = 0 and r = 1; and where
// the lane's nibble for r = 0 begins.
__device__ inline int metadata_word(int order) {
    int tile = order >> 2 & 3, q = order >> 4 << 1 | (order >> 1 & 1);
    return (lane_id() / 4 * 4 + q) * 4 + tile;
}
__device__ inline int nibble_shift() { return lane_id() % 4 * 4; }

// Where the bit of its first half of a word stands among those of a step; the second one's is eight above.
__device__ inline int first_half_shift(int order) { return first_half_bit(order % GROUPS_OF_STEP); }

// The nibble of two columns that have a word, or of one, given twice, that has one half of it. Bit 0 of `has`:
// the first half, bit 1: the second.
__device__ inline uint32_t nibble_of(uint32_t first, uint32_t second, uint32_t has) {
    if (has == 3) return first | second << 2;
    if (has == 1) return first == 3 ? 3 | 0 << 2 : first | first << 2;
    return second == 3 ? 3 | 3 << 2 : (second + 1) | second << 2;
}

// The weights of a chunk in shared memory. Rows are 32 bytes longer: so the groups of half a warp,
// four in each of four rows, are in different banks, as are the eights of a row.
class Tile : public WeightTile<16, 4> {
    static __device__ int at(int order) { return row_of(order) * (ROW / 4) + group_of(order); }

  public:
    using WeightTile::WeightTile;

    // The lane's group.
    __device__ uint2 group(int order) const { return weights_.as<uint2>().load(at(order)); }
    __device__ void put_group(int order, uint2 weights) const {
        weights_.as<uint2>().store(at(order), weights);
    }
    __device__ void put(int row, int col, uint32_t weight) const {
        weights_.store(row * ROW + col, uint16_t(weight));
    }
};

}  // namespace
}  // namespace lscd::lane_24
