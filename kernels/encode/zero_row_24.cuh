// Zero-row 2:4 on the GPU: where chunks of 64 rows lie. The bytes are drawn in kernels/cpu/encode/zero_row_24.h.
#pragma once
#include "zero_row_24_sent.cuh"

namespace lscd::zero_row_24 {

constexpr int ROWS = 64, COLS = TILE_COLS;
__host__ __device__ constexpr int list_bytes(Kind kind) { return TILES * groups_of(kind) * 4 * 2; }
constexpr int UNIT = 32, NOTHING = 0xffff;
__host__ __device__ constexpr int most_bytes(Kind kind) { return (255 + least_units(kind)) * UNIT; }  // of a chunk

__device__ constexpr int values_at(Kind kind, bool extra, int pieces) {
    return header_bytes(kind) + (pieces - 1) * SECOND_PIECE_BYTES + extra * list_bytes(kind);
}
// Of a chunk whose streams end at `end`.
__device__ inline int chunk_bytes(Kind kind, int end) {
    int least = kind == SIXES ? SECOND_PIECE_AT + STEPS_AT : least_units(kind) * UNIT;
    return (max(end + TAIL, least) + UNIT - 1) / UNIT * UNIT;
}
// What a chunk of so many bytes states of its size beside the starts of tile m.
__device__ constexpr int stated_size(Kind kind, int bytes, int m) {
    return (bytes / UNIT - least_units(kind)) >> 2 * m & 3;
}

struct Grid {
    int64_t M, K, slice_cols, levels;
    Kind kind;
    __host__ __device__ int width() const { return pieces_of(kind) * piece_cols(kind); }  // of a regular chunk
    __host__ __device__ int64_t row_blocks() const { return ceil_div(M, ROWS); }
    __host__ __device__ int64_t slices() const { return ceil_div(K, slice_cols); }
    __host__ __device__ int64_t blocks() const { return slices() * row_blocks(); }
};

// 64 rows of a slice: its first row and column, its columns, those of a regular chunk, its chunks that are regular,
// and these and those of level 1.
struct Block {
    int64_t row, col;
    int cols, width, regular, fixed;
    __device__ Block(const Grid& grid, int64_t z)
        : Block(grid, z / grid.row_blocks(), z % grid.row_blocks()) {}
    __device__ Block(const Grid& grid, int64_t slice, int64_t row_block)
        : row(row_block * ROWS), col(slice * grid.slice_cols),
          cols(int(min(grid.slice_cols, grid.K - col))), width(grid.width()), regular(chunks_in(cols, width)),
          fixed(regular + (grid.levels ? (cols + 3 * COLS - 1) / (3 * COLS) : 0)) {}
    // Column in the slice of column i, from left to right, of a chunk that is not extra.
    __device__ int column(int nth, int i) const {
        return nth < regular ? nth * width + i : 3 * ((nth - regular) * COLS + i) + 1;
    }
    __device__ int pieces(int nth) const {
        return nth < regular && width != NESTED_COLS ? (min(width, cols - nth * width) + COLS - 1) / COLS : 1;
    }

  private:
    static constexpr int WIDEST = pieces_of(SIXES) * COLS;
    static_assert(pieces_of(SIXES) == 2);
    // By constants: divisions by other numbers took encoders 4 % longer.
    __device__ static int chunks_in(int cols, int width) {
        return width == COLS          ? (cols + COLS - 1) / COLS
               : width == NESTED_COLS ? (cols + NESTED_COLS - 1) / NESTED_COLS
                                      : (cols + WIDEST - 1) / WIDEST;
    }
};

// Of the nth regular chunk of block z, one of pairs: where its words stand in Sent; the place of its first group
// in its group of level 1.
__device__ inline int64_t sending(const Grid& grid, int64_t z, int nth) { return z * (grid.slice_cols / COLS) + nth; }
__device__ constexpr int phase_of(int nth) { return nth * GROUPS % 3; }

// The last block that begins at or before a chunk; the first one begins with chunk 0. All lanes of the warp ask:
// each looks at one of 32 blocks, equally far apart, until these are neighbours.
__device__ inline int64_t block_of(const Grid& grid, const int* first_chunk, int chunk) {
    int64_t low = 0, high = grid.blocks();
    while (high - low > 1) {
        int64_t apart = ceil_div(high - low, int64_t(LANES)), mine = low + lane_id() * apart;
        unsigned begun = __ballot_sync(ALL_LANES, mine < high && ld_global(first_chunk + mine) <= chunk);
        low += (__popc(begun) - 1) * apart;
        high = min(high, low + apart);
    }
    return low;
}

// The columns of a tile's extra chunks: see kernels/cpu/encode/zero_row_24.h.
__host__ __device__ constexpr int64_t queue_capacity(int64_t slice_cols, Kind kind) {
    return kind == SIXES ? 2 * slice_cols : slice_cols / 2;
}
struct Queue {
    uint32_t* words;
    Kind kind;
    int length;

    __device__ uint32_t word(int i) const {
        return i < length ? ld_global(words + i) : uint32_t(NOTHING) << 16;
    }
    __device__ int column(int i) const { return word(i) >> 16; }
    __device__ uint32_t rows(int i) const { return word(i) & 0xffff; }
    __device__ uint32_t full(int group) const {
        return rows(3 * group) & rows(3 * group + 1) & rows(3 * group + 2);
    }
    // Rows whose weight of word i waits once more, and those whose weight goes to the extra chunk.
    __device__ uint32_t waiting(int i) const {
        if (kind != SIXES) return i % 3 == 2 ? full(i / 3) : 0;
        uint32_t before = 0, behind = 0;
#pragma unroll
        for (int k = 0; k < SIX; k++) {
            int other = i / SIX * SIX + k;
            if (other < i) before |= rows(other);
            if (other > i) behind |= rows(other);
        }
        return rows(i) & before & behind;
    }
    __device__ uint32_t taken(int i) const { return rows(i) & ~waiting(i); }
    // The word for column i of a tile of extra chunk `nth`.
    __device__ int word_of(int nth, int i) const {
        constexpr int HALF = TILE_COLS / 2;
        return nth * piece_cols(kind) + (kind == SIXES ? i % HALF / 3 * SIX + i / HALF * 3 + i % 3 : i);
    }
};

struct Plan {
    Grid grid;
    Source dense;
    uint32_t* queues;
    const int *queued, *first_chunk;
    Sent sent;  // without words: full groups alone send to level 1

    __device__ Queue queue(int64_t z, int m) const {
        int64_t tile = z * TILES + m;
        return {queues + tile * queue_capacity(grid.slice_cols, grid.kind), grid.kind, ld_global(queued + tile)};
    }
};

// Chunk blockIdx.x.
struct Place {
    int64_t z;
    Block block;
    int nth;  // of the block's chunks
    bool extra;
    int pieces;
    __device__ Place(const Grid& grid, const int* first_chunk)
        : z(block_of(grid, first_chunk, blockIdx.x)), block(grid, z),
          nth(int(blockIdx.x) - ld_global(first_chunk + z)), extra(nth >= block.fixed), pieces(block.pieces(nth)) {}
};

}  // namespace lscd::zero_row_24
