// What bitmap_strips and coded_strips share on the GPU: which weights a lane has, a chunk's weights in shared memory,
// and how many lines a chunk needs. The bytes are drawn in kernels/cpu/encode/banks.h.
//
//   a warp: one chunk    a lane: 64 registers of two weights, in rows g = lane / 4 and g + 8
//
// What differs is a Layout's, whose offsets are those of a chunk in kernels/common:
//
//   begin(bank)      the first position of a bank
//   Places           where the lane has weights, as the chunk says it: made by put(w, i, has) of all registers in turn
//                    (bit h of has: for its half h), or by reading a chunk. has(w, i, h); values(half), and the
//                    positions(half) that these take; are_sound(): whether weights can have made them; store(chunk)
//   Writer           of a half's values: put(pair) of each register in turn
//   Reader<Memory>   of a half's values: pair(places, w, i) of each register in turn
#pragma once
#include "chunk_16x256.cuh"

namespace lscd::banks {
namespace {  // other formats have a Tile of their own

using namespace chunk_16x256;

constexpr int WORDS = 4, REGISTERS = 16;      // of a lane; of a word
constexpr int HALF = WORDS / 2;               // whose words' values stand in one bank
constexpr int ORDERS = HALF * REGISTERS * 2;  // of a half
constexpr int LINE = 128;                     // bytes: four of each bank

// The lane's register i of word w: its row, and its first column.
__device__ inline int row_of(int i) { return lane_id() / 4 + 8 * (i % 2); }
__device__ inline int column_of(int w, int i) { return 64 * w + 8 * (i / 2) + 2 * (lane_id() % 4); }

template <class Layout>
constexpr int MOST_BYTES = Layout::LINES + LINE * Layout::MOST_LINES;

// Of bank `lane`, behind the lane's first half.
template <class Layout>
__device__ int end_of_first(const typename Layout::Places& places) {
    return Layout::begin(lane_id()) + places.positions(0);
}

// Lines that values take. `first`: where the lane's first half ends; `second`: positions of the second one, which is
// behind that of lane `bank`.
__device__ inline int lines_needed(int first, int second, int bank) {
    int in_bank = __shfl_sync(ALL_LANES, first, bank) + second;
    return (-__reduce_min_sync(ALL_LANES, -in_bank) + 1) / 2;
}

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
template <class Layout>
constexpr int WARP_BYTES = Tile::BYTES > MOST_BYTES<Layout> ? Tile::BYTES : MOST_BYTES<Layout>;

}  // namespace
}  // namespace lscd::banks
