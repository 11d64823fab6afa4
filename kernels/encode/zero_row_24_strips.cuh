// Zero-row 2:4 in strips on the GPU: where chunks lie, how their weights are loaded, and those that
// have no slot. The bytes are drawn in kernels/cpu/encode/zero_row_24_strips.h.
#pragma once
#include "zero_row_24_sent.cuh"

namespace lscd::zero_row_24 {
namespace {  // zero_row_24.cuh has a Grid and a Place of its own

constexpr int ROWS = TILE_ROWS, COLS = TILES * TILE_COLS;
constexpr int64_t STRIPS = 4;  // of 64 rows
constexpr int ENTRIES = header_bytes(PAIRS), PLACES = 8, STEP_BYTES = 4 * PLACES, UNIT = START_BYTES;
constexpr int MOST_STEPS = 171, MOST_BYTES = ENTRIES + STEP_BYTES * MOST_STEPS + 4096 + TAIL;
constexpr int MOST_UNITS = (MOST_BYTES + UNIT - 1) / UNIT;

__device__ inline uint32_t no_entry(int place) { return uint32_t(place / 4 * 4 + 3) << 16; }

// A [M, K], cut into chunks.
struct Grid {
    int64_t M, K;
    int levels, regular, rounds;
    Grid(int64_t M, int64_t K, int64_t levels)
        : M(M), K(K), levels(int(levels)), regular(int((K + COLS - 1) / COLS)),
          rounds(regular + (levels ? (regular + 2) / 3 : 0)) {}
    int64_t chunks() const { return ceil_div(M, STRIPS * ROWS) * STRIPS * rounds; }
    __device__ bool of_level(int round) const {
        return levels && (round % 4 == 3 || round == rounds - 1);
    }
    // Of a regular round: how many of them are before it.
    __device__ int nth(int round) const { return levels ? round - round / 4 : round; }
    // Of the nth regular chunk of a strip: where its words stand in Sent; the place of tile m's first group in
    // its group of level 1.
    __device__ int64_t sending(int64_t strip, int nth) const { return strip * regular + nth; }
    __device__ static int phase(int nth, int m) { return (nth % 3 * TILES + m) * GROUPS % 3; }
    // Column of A of column j of a round.
    __device__ int64_t column(int round, int j) const {
        if (of_level(round)) return 3 * (int64_t(round / 4) * COLS + j) + 1;
        return int64_t(nth(round)) * COLS + j;
    }
};

// A chunk, blockIdx.x if nothing else is said: its first row of A, its round, and whether it has
// entries.
struct Place {
    int64_t row;
    int round;
    bool of_level, entries;
    __device__ Place(const Grid& A, int64_t strip, int round)
        : row(strip * ROWS), round(round), of_level(A.of_level(round)),
          entries(of_level || !A.levels) {}
    __device__ int64_t number(const Grid& A) const { return row / ROWS * A.rounds + round; }
    __device__ explicit Place(const Grid& A)
        : Place(A, blockIdx.x / A.rounds, int(blockIdx.x % A.rounds)) {}
};

// Of a chunk of level 1: column i is group i of the three regular ones before.
__device__ inline void load_sent(const Tiles& tiles, const Source& dense, const Grid& A, const Sent& sent,
                                 const Place& place) {
    constexpr int CHUNK_GROUPS = TILES * GROUPS;
    int64_t k = A.column(place.round, 0);
#pragma unroll 4
    for (int i = lane_id(); i < ROWS * COLS; i += LANES) {
        int r = i / COLS, col = i % COLS, nth = place.round / 4 * 3 + col / CHUNK_GROUPS, n = col % CHUNK_GROUPS;
        bool here = nth < A.regular && sent.from(A.sending(place.row / ROWS, nth), n / GROUPS, r, n % GROUPS);
        tiles.put(col / TILE_COLS * TILE_ROWS + r, col % TILE_COLS, here ? dense.load(place.row + r, k + 3 * col) : 0);
    }
    __syncwarp();
}

__device__ inline void load(const Tiles& tiles, const Source& dense, const Grid& A, const Sent& sent,
                            const Place& place) {
    if (place.of_level) return load_sent(tiles, dense, A, sent, place);
    tiles.load(dense, place.row, 0, A.column(place.round, 0), TILE_COLS);
    if (A.levels) sent.take(tiles, A.sending(place.row / ROWS, A.nth(place.round)));
}

// Groups of the lane's stream that have three weights, a bit for each.
__device__ inline uint32_t full_groups(const Tiles& tiles) {
    uint32_t found = 0;
    int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
    for (int order = 0; order < ORDERS; order++) {
        int row = m * TILE_ROWS + row_of(g, order), col = 3 * group_of(order);
        bool full = tiles.at(row, col) && tiles.at(row, col + 1) && tiles.at(row, col + 2);
        found |= uint32_t(full) << order;
    }
    return found;
}

// Weights of a chunk that have no slot. Full groups of either kind, with an even or an odd number,
// are counted in the order of streams.
class Entries {
    uint32_t full_ = 0;
    int before_[2] = {}, count_[2] = {};  // in streams before the lane's; in all of them

    static constexpr uint32_t EVEN = 0x55555555;

  public:
    __device__ Entries(const Tiles& tiles, const Place& place) {
        if (!place.entries) return;
        full_ = full_groups(tiles);
        int mine = __popc(full_ & EVEN) | __popc(full_ & ~EVEN) << 16;
        int upto = inclusive_scan(mine), all = __shfl_sync(ALL_LANES, upto, LANES - 1);
        before_[0] = (upto - mine) & 0xffff, before_[1] = (upto - mine) >> 16;
        count_[0] = all & 0xffff, count_[1] = all >> 16;
    }
    __device__ int steps() const { return (max(count_[0], count_[1]) + 2) / 3; }
    __device__ int bytes() const { return STEP_BYTES * steps(); }
    // Of the full groups of its kind, which the lane's group `order` is.
    __device__ int nth(int order) const {
        uint32_t earlier = full_ & (order % 2 ? ~EVEN : EVEN) & ((1u << order) - 1);
        return (order % 2 ? before_[1] : before_[0]) + __popc(earlier);
    }
    // Places that are not in use, in all steps.
    __device__ void clear(Shared<uint32_t> chunk) const {
        for (int i = lane_id(); i < PLACES * steps(); i += LANES)
            chunk.store(ENTRIES / 4 + i, no_entry(i % PLACES));
        __syncwarp();
    }
    // Stores one of a group's three weights; returns which.
    __device__ int put(Shared<uint32_t> chunk, int order, const uint32_t (&weights)[3]) const {
        int i = nth(order), index = i % 3, m = lane_id() / TILE_STREAMS;
        int row = row_of(lane_id() % TILE_STREAMS, order), group = m * GROUPS + group_of(order);
        uint32_t to = uint32_t(4 * group + index) << 16 | uint32_t(row) << 24;
        int at = ENTRIES / 4 + i / 3 * PLACES + order % 2 * 4 + index;
        chunk.store(at, of(weights, index) | to);
        return index;
    }
};

// For a Writer: of three weights which(order, weights) has no slot.
template <class Which>
__device__ auto leaving(Which which) {
    return [=](int order, uint32_t (&weights)[3]) {
        if (!weights[0] || !weights[1] || !weights[2]) return;
        int away = which(order, weights);
#pragma unroll
        for (int i = 0; i < 3; i++) weights[i] = i == away ? 0 : weights[i];
    };
}

}  // namespace
}  // namespace lscd::zero_row_24
