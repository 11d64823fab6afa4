// Zero-row 2:4, the format of the Hopper kernel for few columns: how its bytes lie. What a tile, a
// stream and the metadata are: zero_row_24_tile.h.
//
//   piece 64x48       four tiles, one below the other
//   chunk             a piece; of sixes two side by side, but for extra chunks, and where columns end; nested
//                     ones (zero_row_24_nested.h) are 64x72 and have their level 1 inside
//   block             64 rows x a slice of K: its regular chunks, left to right; chunks of level 1;
//                     extra chunks
//
// A row of a group has two slots. Where it has all three weights, the middle one goes elsewhere:
//   levels = 1        to a chunk of level 1, whose columns are the middle ones of all groups of the
//                     slice: 48 of them, three a group again. Where a row has all three of those,
//                     the middle one goes to an extra chunk.
//   levels = 0        to an extra chunk.
// Columns of extra chunks are listed: 48 columns of a tile that have such a weight, three a group.
// Of a row of a six all weights between its first and its last one go to an extra chunk, whose columns
// are sixes in the order of the list; there is no level 1.
//
//   packed, sixes
//           pairs
//   384     512    start u16 [g][tile]  bits 14-15: bits 2 tile, 2 tile + 1 of chunk bytes / 32, less `least_units`
//   448     576    extra chunks only: column u16 [tile][step][lane], in the slice: the row of B for
//                  lane 8 m + j of ldmatrix, groups 2 m and 2 m + 1 of the step; 0xffff: zeros
//   448            a second piece of sixes: its metadata
//   ...     ...    streams, then at least 4 bytes of zeros; a multiple of 32 bytes in all, of sixes at least
//                  704, since a kernel looks for a second piece's indices before it knows that there is none
#pragma once
#include <algorithm>

#include "zero_row_24_nested.h"

namespace lscd::zero_row_24 {

constexpr i64 ROWS = 64, COLS = TILE_COLS;
constexpr i64 piece_cols(Kind kind) { return kind == NESTED ? NESTED_COLS : COLS; }
constexpr i64 groups_of(Kind kind) { return piece_cols(kind) / 3; }  // of a row
constexpr i64 list_bytes(Kind kind) { return TILES * groups_of(kind) * 4 * 2; }
constexpr i64 UNIT = 32;
constexpr i64 most_bytes(Kind kind) { return (255 + least_units(kind)) * UNIT; }  // of a chunk
constexpr i64 MOST_BYTES = most_bytes(NESTED);                                    // of any
constexpr u16 NOTHING = 0xffff;

// Where the values begin.
constexpr i64 values_at(Kind kind, bool extra, i64 pieces) {
    return header_bytes(kind) + (pieces - 1) * SECOND_PIECE_BYTES + extra * list_bytes(kind);
}

// Of a chunk whose streams end at `end`.
inline i64 chunk_bytes(Kind kind, i64 end) {
    i64 least = kind == SIXES ? piece_at(1) + STEPS_AT : least_units(kind) * UNIT;
    return ceil_div(std::max(end + TAIL, least), UNIT) * UNIT;
}

// What a chunk of so many bytes states of its size beside the starts of tile m.
constexpr i64 stated_size(Kind kind, i64 bytes, i64 m) { return (bytes / UNIT - least_units(kind)) >> 2 * m & 3; }

struct Grid {
    i64 M, K, slice_cols, levels;
    Kind kind;
    i64 width() const { return pieces_of(kind) * piece_cols(kind); }  // of a regular chunk
    i64 row_blocks() const { return ceil_div(M, ROWS); }
    i64 blocks() const { return ceil_div(K, slice_cols) * row_blocks(); }
};

// 64 rows of a slice.
struct Block {
    Kind kind;
    i64 row, col, cols;         // first row and column, columns
    i64 width, regular, fixed;  // columns of a regular chunk; chunks that are; these and those of level 1
    Block(const Grid& grid, i64 z)
        : kind(grid.kind), row(z % grid.row_blocks() * ROWS), col(z / grid.row_blocks() * grid.slice_cols),
          cols(min(grid.slice_cols, grid.K - col)), width(grid.width()), regular(ceil_div(cols, width)),
          fixed(regular + (grid.levels ? ceil_div(cols, 3 * COLS) : 0)) {}
    // Column in the slice of column i of a chunk that is not extra.
    i64 column(i64 nth, i64 i) const {
        if (nth >= regular) return 3 * ((nth - regular) * COLS + i) + 1;
        return nth * width + (kind == NESTED ? nested_column(i) : i);
    }
    i64 pieces(i64 nth) const {
        return nth < regular ? ceil_div(min(width, cols - nth * width), piece_cols(kind)) : 1;
    }
};
// Of the nth regular chunk of block z, one of pairs: where its words stand in Sent; the place of its first group
// in its group of level 1.
inline i64 sending(const Grid& grid, i64 z, i64 nth) { return z * (grid.slice_cols / COLS) + nth; }
constexpr int phase_of(i64 nth) { return int(nth * GROUPS % 3); }

// The columns of a tile's extra chunks: one word each, column in the slice << 16 | mask of the 16
// rows whose weight of that column goes there. Three at a time are a group of an extra chunk, or six a six.
// What a row has too much of there waits once more, at the end of the queue: the third of three, or what
// stands between the first and the last of a six, whose words are made whole with such of no column.
//
// A slice of s columns has s / 3 groups, and every third column in the queue can wait again: at
// most s / 2 words for each tile, without level 1; of nested chunks one of nine columns can wait at
// first, s / 6 words in all. Of sixes four of six columns can wait, and wait again: 2 s words, those of
// no column included. (A six with n >= 2 columns sends n - 2 at most, so r words at the end take at most
// 3 r, if r is even, 3 r + 3 if not, by induction; the first ones are at most 2 s / 3.)
constexpr i64 queue_capacity(i64 slice_cols, Kind kind) {
    return kind == SIXES ? 2 * slice_cols : slice_cols / 2;
}

struct Queue {
    u32* words;
    Kind kind;
    i64 length;

    void push(u32 column, u32 rows) { words[length++] = column << 16 | rows; }
    u32 column(i64 i) const { return i < length ? words[i] >> 16 : u32(NOTHING); }
    u32 rows(i64 i) const { return i < length ? words[i] & 0xffff : 0; }
    // Of group `group` of all extra chunks, the rows that have three weights there.
    u32 full(i64 group) const {
        return rows(3 * group) & rows(3 * group + 1) & rows(3 * group + 2);
    }
    // Rows whose weight of word i waits once more.
    u32 waiting(i64 i) const {
        if (kind != SIXES) return i % 3 == 2 ? full(i / 3) : 0;
        return between(i % SIX, [&](i64 k) { return rows(i - i % SIX + k); });
    }
    // The word for column i of a tile of extra chunk `nth`, by the order of columns there.
    i64 word_of(i64 nth, i64 i) const {
        i64 half = TILE_COLS / 2, six = i % half / 3 * SIX + i / half * 3 + i % 3;
        return nth * piece_cols(kind) + (kind == SIXES ? six : i);
    }
};

// What encoding has found out about A when chunks are placed and written.
struct Plan {
    Grid grid;
    const u16* dense;
    u32* queues;             // [blocks][tile][capacity]
    const i32* queued;       // [blocks][tile], words
    const i32* first_chunk;  // [blocks + 1]
    Sent sent;               // without words: full groups alone send to level 1

    Queue queue(i64 z, i64 m) const {
        i64 tile = z * TILES + m;
        return {queues + tile * queue_capacity(grid.slice_cols, grid.kind), grid.kind, queued[tile]};
    }
};

}  // namespace lscd::zero_row_24
