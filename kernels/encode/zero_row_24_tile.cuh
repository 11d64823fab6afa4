// Zero-row 2:4 on the GPU: the weights of a chunk in shared memory, and which lane has which stream of them. The
// bytes are drawn in kernels/cpu/encode/zero_row_24_tile.h.
//
//   a block: one warp, one chunk, four tiles    a lane: one stream, rows g and g + 8 of a tile
//   tile 0: lanes 0 to 7    tile 1: lanes 8 to 15 ...     lane 8 m + g
#pragma once
#include "../common/zero_row_24.cuh"
#include "weights.cuh"

namespace lscd::zero_row_24 {

constexpr int TILE_ROWS = 16, TILE_COLS = 48, GROUPS = 16, TILE_STREAMS = 8;
constexpr int ORDERS = 32;  // groups of a stream
constexpr int SIXES_OF_PIECE = 16;
constexpr int METADATA_WORDS = 128, TAIL = 4;  // of a piece
constexpr int START_BYTES = 16;  // of chunk_start

static_assert(TILES * TILE_STREAMS == LANES, "a lane has a stream");

// Position in a stream -> row of the tile, group.
__device__ inline int row_of(int g, int order) { return g + 8 * (order >> 2 & 1); }
__device__ inline int group_of(int order) { return (order >> 3) * 4 + (order & 3); }
// The word of a chunk's metadata with nibble `nth` of a stream, in bits 4 * (nth % 8) and up.
__device__ inline int metadata_word(int m, int g, int nth) {
    return nth / ORDERS * METADATA_WORDS + (4 * g + nth % ORDERS / 8) * TILES + m;
}
// Which nibble a six has for a step.
__device__ inline int nibble_of_six(int order, int step) {
    return order / SIXES_OF_PIECE * ORDERS + step * SIXES_OF_PIECE + order % SIXES_OF_PIECE;
}
// Packed streams store codes of 3 bits instead: see kernels/cpu/encode/zero_row_24_tile.h.
__device__ inline uint32_t code_of(uint32_t nibble) {
    return nibble % 4 + (nibble < 12 ? nibble / 4 : 4);
}
__device__ inline uint32_t nibble_of(uint32_t code) { return 0xfedc9840u >> 4 * code & 15; }
__device__ inline int code_shift(int n) { return 4 * (n / 2 + n % 2 * 4); }
__device__ inline int code_word(int lane, int word) { return 3 * lane + word; }
// Of sixes: see there, too.
constexpr int SIX = 6;
constexpr uint32_t EVEN = 0x55555555u;
__device__ inline int column_of_six(int six, int i) { return six * 3 + i % 3 + i / 3 * (TILE_COLS / 2); }
__device__ inline uint32_t place_in_six(int i) { return i + i / 3; }
__device__ inline uint32_t nibble_of_step(uint32_t slot0, uint32_t slot1, uint32_t step) {
    return (slot0 / 4 == step ? slot0 & 3 : 3) | (slot1 / 4 == step ? slot1 & 3 : 3) << 2;
}
__device__ inline uint32_t unused(uint32_t codes) { return codes & codes >> 1 & EVEN; }
// Rows that have a weight in column i of a six, and one on either side.
__device__ inline uint32_t between(const uint32_t (&rows)[SIX], int i) {
    uint32_t before = 0, behind = 0;
#pragma unroll
    for (int k = 0; k < SIX; k++) (k < i ? before : behind) |= k == i ? 0 : rows[k];
    return rows[i] & before & behind;
}

// One of three registers.
__device__ inline uint32_t of(const uint32_t (&w)[3], int i) {
    return i == 0 ? w[0] : i == 1 ? w[1] : w[2];
}

template <class T>
__device__ Shared<T> in_shared(T* array) {
    return Shared<T>(static_cast<void*>(array));
}

// The weights of a chunk of so many columns: row r of tile m is row 16 m + r here.
template <int COLS>
class Stack {
    static constexpr int STRIDE = COLS + 2;  // halves; odd in words, against bank conflicts
    static_assert(STRIDE / 2 % 2 == 1);
    Shared<uint16_t> weights_;

  public:
    static constexpr int ROWS = TILES * TILE_ROWS;
    struct alignas(16) Memory {
        uint16_t weights[ROWS * STRIDE];
    };
    __device__ explicit Stack(Memory& memory) : weights_(in_shared(memory.weights)) {}
    __device__ uint32_t at(int row, int col) const { return weights_.load(row * STRIDE + col); }
    __device__ void put(int row, int col, uint32_t weight) const {
        weights_.store(row * STRIDE + col, uint16_t(weight));
    }
    // Weights from row `row` and column k on. A tile is `below` rows below the one before it, and `behind` of its
    // columns behind it.
    __device__ void load(const Source& dense, int64_t row, int below, int64_t k, int behind) const {
        if (dense.aligned) load_eights(row, below, k, behind, [&](auto... at) { return dense.load_aligned8(at...); });
        else load_eights(row, below, k, behind, [&](auto... at) { return dense.load8(at...); });
        __syncwarp();
    }
    // The middle weights of full groups, the first one in column k; groups end before column `end`. Tiles stand one
    // below the other.
    __device__ void load_middles(const Source& dense, int64_t row, int64_t k, int64_t end) const {
#pragma unroll 4
        for (int i = lane_id(); i < ROWS * COLS; i += LANES) {
            int r = i / COLS, col = i % COLS;
            int64_t middle = k + 3 * col;
            uint32_t group[3];
#pragma unroll
            for (int n = 0; n < 3; n++) group[n] = middle + 1 < end ? dense.load(row + r, middle + n - 1) : 0;
            put(r, col, group[0] && group[2] ? group[1] : 0);
        }
        __syncwarp();
    }

  private:
    // load8(row, column): eight weights; several are under way at once.
    template <class Load8>
    __device__ void load_eights(int64_t row, int below, int64_t k, int behind, Load8 load8) const {
        constexpr int EIGHTS = COLS / 8;  // of a row
        constexpr int AT_ONCE = 6;
        static_assert(ROWS * EIGHTS % (AT_ONCE * LANES) == 0);
        Shared<uint32_t> pairs = weights_.as<uint32_t>();
        for (int i = lane_id(); i < ROWS * EIGHTS; i += AT_ONCE * LANES) {
            uint4 weights[AT_ONCE];
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) {
                int mine = (i + n * LANES) / EIGHTS, m = mine / TILE_ROWS, col = (i + n * LANES) % EIGHTS * 8;
                weights[n] = load8(row + m * below + mine % TILE_ROWS, k + m * behind + col);
            }
#pragma unroll
            for (int n = 0; n < AT_ONCE; n++) {
                int word = (i + n * LANES) / EIGHTS * STRIDE / 2 + (i + n * LANES) % EIGHTS * 4;
                pairs.store(word, weights[n].x), pairs.store(word + 1, weights[n].y);
                pairs.store(word + 2, weights[n].z), pairs.store(word + 3, weights[n].w);
            }
        }
    }
};
using Tiles = Stack<TILE_COLS>;

}  // namespace lscd::zero_row_24
