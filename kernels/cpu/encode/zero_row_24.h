// Zero-row 2:4, the format of the Hopper kernels: how its bytes lie.
//
// A group is three columns of a row. mma.sp multiplies two values of a group, chosen by two 2-bit
// indices (a nibble of metadata) among four rows of B: the group's three, and one of zeros, index
// 3, for a slot that is not in use. Whatever finite value was loaded there is multiplied by zero.
//
//   tile 16x48        two k-steps of mma.sp, 16 groups in a row: group = step * 8 + half * 4 + t
//   stream (tile, g)  the values of rows g and g + 8 of a tile, groups in the order (step, half,
//                     row half, t): lane (g, t) of gather (step, half, row half) finds its group
//                     by counting the slots in use before it
//   chunk 64x48       four tiles, one below the other: metadata, starts of the 32 streams, values
//   block             64 rows x a slice of K: its regular chunks, left to right, then extra chunks
//
// A row of a group has two slots. Where it has all three weights, the middle one goes to an extra
// chunk, whose columns are listed: 48 columns of a tile that have such a weight, three a group.
//
//   byte 0    metadata u32 [32][tile]   lane (g, 2 step + half): low 16 bits row g, high 16 row
//                                       g + 8; nibble t: index of slot 0 | index of slot 1 << 2
//        512  start u16 [g][tile]       bits 0-13: of the stream, in bytes from the chunk's start;
//                                       bits 14-15: bits 2 tile, 2 tile + 1 of chunk bytes / 32
//        576  extra chunks only: column u16 [tile][step][lane], in the slice: the row of B for lane
//             8 m + j of ldmatrix, groups 2 m and 2 m + 1 of the step; 0xffff: zeros
//        ...  streams, then at least 4 bytes of zeros; a multiple of 32 bytes in all
//
// Packed streams hold values one after another, slot 0 before slot 1. Paired streams are 4-byte
// words, one for each slot 1 in use: two values of a group, or two lone ones, the first in slot 0
// and the second in slot 1 of theirs. A lone value before a pair takes slot 1, beside a zero.
#pragma once
#include "scan.h"

namespace lscd::zero_row_24 {

constexpr i64 ROWS = 64, COLS = 48, TILES = 4, TILE_ROWS = 16, GROUPS = 16;
constexpr i64 STREAMS = 32, ORDERS = 32;  // streams of a chunk, groups of a stream
constexpr i64 STARTS = 512, LISTS = 576, LIST_BYTES = 512, TAIL = 4;
constexpr i64 UNIT = 32, MOST_BYTES = 255 * UNIT, START_BYTES = 16;  // of chunk_start
constexpr u16 NOTHING = 0xffff;

// Where the values begin.
constexpr i64 header_bytes(bool extra) { return extra ? LISTS + LIST_BYTES : LISTS; }

struct Grid {
    i64 M, K, slice_cols;
    i64 row_blocks() const { return ceil_div(M, ROWS); }
    i64 blocks() const { return ceil_div(K, slice_cols) * row_blocks(); }
};

// 64 rows of a slice.
struct Block {
    i64 row, col, cols, regular;  // first row and column, columns, chunks that are not extra
    Block(const Grid& grid, i64 z)
        : row(z % grid.row_blocks() * ROWS), col(z / grid.row_blocks() * grid.slice_cols),
          cols(min(grid.slice_cols, grid.K - col)), regular(ceil_div(cols, COLS)) {}
};

// Position in a stream -> row of the tile, group.
constexpr int row_of(int g, int order) { return g + 8 * (order >> 2 & 1); }
constexpr int group_of(int order) { return (order >> 3) * 4 + (order & 3); }

// The columns of a tile's extra chunks: one word each, column in the slice << 16 | mask of the 16
// rows whose weight of that column goes there. Three at a time are a group of an extra chunk. Where
// a row has all three of those, the third waits once more, at the end of the queue.
//
// A slice of s columns has s / 3 groups, and every third column in the queue can wait again: at
// most s / 2 words for each tile.
constexpr i64 queue_capacity(i64 slice_cols) { return slice_cols / 2; }

struct Queue {
    u32* words;
    i64 length;

    void push(u32 column, u32 rows) { words[length++] = column << 16 | rows; }
    u32 column(i64 i) const { return i < length ? words[i] >> 16 : u32(NOTHING); }
    u32 rows(i64 i) const { return i < length ? words[i] & 0xffff : 0; }
    // Of group `group` of all extra chunks, the rows that have three weights there.
    u32 full(i64 group) const {
        return rows(3 * group) & rows(3 * group + 1) & rows(3 * group + 2);
    }
};

// What encoding has found out about A when chunks are placed and written.
struct Plan {
    Grid grid;
    bool pairs;
    const u16* dense;
    u32* queues;             // [blocks][tile][capacity]
    const i32* queued;       // [blocks][tile], words
    const i32* first_chunk;  // [blocks + 1]

    Queue queue(i64 z, i64 m) const {
        i64 tile = z * TILES + m;
        return {queues + tile * queue_capacity(grid.slice_cols), queued[tile]};
    }
};

}  // namespace lscd::zero_row_24
