// Bitmaps in strips on the GPU: where chunks and their parts lie, which weights a lane has, and a chunk's
// weights in shared memory. The bytes are drawn in kernels/cpu/encode/bitmap_strips.h.
//
//   a warp: one chunk    a lane: 64 registers of two weights, in rows g = lane / 4 and g + 8
#pragma once
#include "../common/bitmap_strips.cuh"
#include "chunk_16x256.cuh"

namespace lscd::bitmap {
namespace {  // other formats have a Tile of their own

using namespace chunk_16x256;

constexpr int WORDS = 4, REGISTERS = 16;  // of a lane's bitmap; of a word
constexpr int HALF = WORDS / 2;           // whose words' values stand in one bank
constexpr int BANKS = BitmapChunk::BANKS, LINES = BitmapChunk::LINES, LINE = BitmapChunk::LINE_BYTES;
constexpr int PADDING = BANKS + LANES;  // up to lines
constexpr int MOST_LINES = BitmapChunk::MOST_LINES, MOST_BYTES = LINES + LINE * MOST_LINES;

// The lane's register i of word w: its row, and its first column.
__device__ inline int row_of(int i) { return lane_id() / 4 + 8 * (i % 2); }
__device__ inline int column_of(int w, int i) { return 64 * w + 8 * (i / 2) + 2 * (lane_id() % 4); }

// Where its half h has a bit.
__device__ constexpr int bit_of(int i, int h) { return first_half_bit(i) + 8 * h; }

// Lines that values take. `first`, `second`: how many the lane has in each half; `bank`: of the second one.
__device__ inline int lines_needed(int first, int second, int bank) {
    int in_bank = __shfl_sync(ALL_LANES, first, bank) + second;
    return (-__reduce_min_sync(ALL_LANES, -in_bank) + 1) / 2;
}

// Where values of a bank stand, one after the other, in halves behind the first line's begin: two in a line.
class Positions {
    static constexpr int TO_SECOND = 1, TO_NEXT_LINE = LINE / 2 - 1;
    int at_, step_;

  public:
    __device__ Positions(int bank, int position)
        : at_(position / 2 * (LINE / 2) + 2 * bank + position % 2),
          step_(position % 2 ? TO_NEXT_LINE : TO_SECOND) {}
    __device__ int next() {
        int at = at_;
        at_ += step_, step_ ^= TO_SECOND ^ TO_NEXT_LINE;
        return at;
    }
};

// The weights of a chunk in shared memory. Rows are 16 bytes longer: so the registers of a warp, four in
// each of eight rows, are in different banks.
class Tile : public WeightTile<8, 8> {
    static __device__ int at(int w, int i) { return (row_of(i) * ROW + column_of(w, i)) / 2; }

  public:
    using WeightTile::WeightTile;

    __device__ uint32_t pair(int w, int i) const { return weights_.as<uint32_t>().load(at(w, i)); }
    __device__ void put_pair(int w, int i, uint32_t pair) const {
        weights_.as<uint32_t>().store(at(w, i), pair);
    }
};

// What a warp needs: a tile and a chunk take turns, while their weights are in registers.
constexpr int WARP_BYTES = Tile::BYTES > MOST_BYTES ? Tile::BYTES : MOST_BYTES;

}  // namespace
}  // namespace lscd::bitmap
