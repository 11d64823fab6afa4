// Zero-row 2:4 on the GPU: where chunks lie, their weights in shared memory, and their streams. The
// bytes are drawn in kernels/cpu/encode/zero_row_24.h.
//
//   a block: one warp, one chunk 64x48          a lane: one stream, rows g and g + 8 of a tile
//   +-- tile 0: lanes  0 to  7 --+              lane 8 m + g
//   +-- tile 1: lanes  8 to 15 --+
//   +-- tile 2: lanes 16 to 23 --+
//   +-- tile 3: lanes 24 to 31 --+
#pragma once
#include "weights.cuh"

namespace lscd::zero_row_24 {

constexpr int ROWS = 64, COLS = 48, TILES = 4, TILE_ROWS = 16, GROUPS = 16, TILE_STREAMS = 8;
constexpr int ORDERS = 32;  // groups of a stream
constexpr int METADATA_WORDS = 128, STARTS = 512, LISTS = 576, LIST_BYTES = 512, TAIL = 4;
constexpr int UNIT = 32, MOST_BYTES = 255 * UNIT, START_BYTES = 16;  // of chunk_start
constexpr int NOTHING = 0xffff;

static_assert(TILES * TILE_STREAMS == LANES, "a lane has a stream");

__host__ __device__ constexpr int header_bytes(bool extra) {
    return extra ? LISTS + LIST_BYTES : LISTS;
}

struct Grid {
    int64_t M, K, slice_cols;
    __host__ __device__ int64_t row_blocks() const { return (M + ROWS - 1) / ROWS; }
    __host__ __device__ int64_t blocks() const { return ceil_div(K, slice_cols) * row_blocks(); }
};

// 64 rows of a slice: its first row and column, its columns, its chunks that are not extra.
struct Block {
    int64_t row, col;
    int cols, regular;
    __device__ Block(const Grid& grid, int64_t z)
        : row(z % grid.row_blocks() * ROWS), col(z / grid.row_blocks() * grid.slice_cols),
          cols(int(min(grid.slice_cols, grid.K - col))), regular((cols + COLS - 1) / COLS) {}
};

// The last block that begins at or before a chunk.
__device__ inline int64_t block_of(const Grid& grid, const int* first_chunk, int chunk) {
    int64_t low = 0, high = grid.blocks();
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        (ld_global(first_chunk + middle) <= chunk ? low : high) = middle;
    }
    return low;
}

// Position in a stream -> row of the tile, group.
__device__ inline int row_of(int g, int order) { return g + 8 * (order >> 2 & 1); }
__device__ inline int group_of(int order) { return (order >> 3) * 4 + (order & 3); }
// The word of a chunk's metadata with nibble `order` of a stream, in bits 4 * (order % 8) and up.
__device__ inline int metadata_word(int m, int g, int order) {
    return (4 * g + order / 8) * TILES + m;
}

// The columns of a tile's extra chunks: see kernels/cpu/encode/zero_row_24.h.
struct Queue {
    uint32_t* words;
    int length;

    __device__ uint32_t word(int i) const {
        return i < length ? ld_global(words + i) : uint32_t(NOTHING) << 16;
    }
    __device__ int column(int i) const { return word(i) >> 16; }
    __device__ uint32_t rows(int i) const { return word(i) & 0xffff; }
    __device__ uint32_t full(int group) const {
        return rows(3 * group) & rows(3 * group + 1) & rows(3 * group + 2);
    }
    // Rows whose weight of column i goes to the extra chunk.
    __device__ uint32_t taken(int i) const { return rows(i) & (i % 3 == 2 ? ~full(i / 3) : ~0u); }
};

struct Plan {
    Grid grid;
    Source dense;
    uint32_t* queues;
    const int *queued, *first_chunk;

    __device__ Queue queue(int64_t z, int m) const {
        int64_t tile = z * TILES + m;
        return {queues + tile * (grid.slice_cols / 2), ld_global(queued + tile)};
    }
};

// Chunk blockIdx.x.
struct Place {
    int64_t z;
    Block block;
    int nth;  // of the block's chunks
    bool extra;
    __device__ Place(const Grid& grid, const int* first_chunk)
        : z(block_of(grid, first_chunk, blockIdx.x)), block(grid, z),
          nth(int(blockIdx.x) - ld_global(first_chunk + z)), extra(nth >= block.regular) {}
};

template <class T>
__device__ Shared<T> in_shared(T* array) {
    return Shared<T>(static_cast<void*>(array));
}

// The weights of a chunk in shared memory.
class Tiles {
    static constexpr int STRIDE = COLS + 2;  // halves; odd in words, against bank conflicts
    Shared<uint16_t> weights_;

  public:
    struct alignas(16) Memory {
        uint16_t weights[ROWS * STRIDE];
    };
    __device__ explicit Tiles(Memory& memory) : weights_(in_shared(memory.weights)) {}
    __device__ uint32_t at(int row, int col) const { return weights_.load(row * STRIDE + col); }

    __device__ void load(const Plan& plan, const Place& place) {
        if (place.extra) load_extra(plan, place);
        else load_regular(plan.dense, place);
        __syncwarp();
    }

  private:
    __device__ void load_regular(const Source& dense, const Place& place) {
        int64_t col = place.block.col + place.nth * COLS;
        Shared<uint32_t> pairs = weights_.as<uint32_t>();
        for (int i = lane_id(); i < ROWS * COLS / 8; i += LANES) {
            int row = i / (COLS / 8), eight = i % (COLS / 8), word = row * STRIDE / 2 + 4 * eight;
            uint4 weights = dense.load8(place.block.row + row, col + 8 * eight);
            pairs.store(word, weights.x), pairs.store(word + 1, weights.y);
            pairs.store(word + 2, weights.z), pairs.store(word + 3, weights.w);
        }
    }
    __device__ void load_extra(const Plan& plan, const Place& place) {
        for (int i = lane_id(); i < TILES * COLS; i += LANES) {
            int m = i / COLS, col = i % COLS, at = (place.nth - place.block.regular) * COLS + col;
            Queue queue = plan.queue(place.z, m);
            uint32_t rows = queue.taken(at);
            int64_t k = place.block.col + queue.column(at);
            for (int r = 0; r < TILE_ROWS; r++) {
                int row = m * TILE_ROWS + r;
                uint32_t weight = rows >> r & 1 ? plan.dense.load(place.block.row + row, k) : 0;
                weights_.store(row * STRIDE + col, uint16_t(weight));
            }
        }
    }
};

// The lane's stream, group by group: its nibbles go into zeroed metadata, its values to put(value),
// zeros beside lone ones included.
template <bool PAIRS, class Put>
class Writer {
    Shared<uint32_t> metadata_;
    Put put_;
    int m_ = lane_id() / TILE_STREAMS, g_ = lane_id() % TILE_STREAMS;
    int waiting_ = -1;  // where a lone value stands whose word has room
    uint32_t index_ = 0, value_ = 0;

  public:
    __device__ Writer(Shared<uint32_t> metadata, Put put) : metadata_(metadata), put_(put) {}

    __device__ void write(const Tiles& tiles) {
        for (int order = 0; order < ORDERS; order++) {
            int row = m_ * TILE_ROWS + row_of(g_, order), col = 3 * group_of(order);
            uint32_t w[3] = {tiles.at(row, col), tiles.at(row, col + 1), tiles.at(row, col + 2)};
            int first = w[0] ? 0 : w[1] ? 1 : 2, last = w[2] ? 2 : w[1] ? 1 : 0;
            uint32_t low = w[0] ? w[0] : w[1] ? w[1] : w[2], high = w[2] ? w[2] : w[1];
            if (first < last) two(order, first, low, last, high);
            else if (first == last) one(order, first, low);
            else set(order, 15);
        }
        if (waiting_ >= 0) place(value_, index_ | 3 << 2, 0);
        __syncwarp();
    }

  private:
    __device__ void set(int order, uint32_t nibble) {
        int word = metadata_word(m_, g_, order);
        metadata_.store(word, metadata_.load(word) | nibble << 4 * (order % 8));
    }
    __device__ void place(uint32_t low, uint32_t nibble, uint32_t high) {
        set(waiting_, nibble);
        put_(low), put_(high);
        waiting_ = -1;
    }
    __device__ void two(int order, uint32_t i, uint32_t a, uint32_t j, uint32_t b) {
        if (waiting_ >= 0) place(0, 3 | index_ << 2, value_);
        set(order, i | j << 2);
        put_(a), put_(b);
    }
    __device__ void one(int order, uint32_t i, uint32_t a) {
        if (!PAIRS) {
            set(order, i | 3 << 2);
            put_(a);
        } else if (waiting_ >= 0) {
            set(order, 3 | i << 2);
            place(value_, index_ | 3 << 2, a);
        } else {
            waiting_ = order, index_ = i, value_ = a;
        }
    }
};

}  // namespace lscd::zero_row_24
