// A chunk of a zero-row 2:4 encoding, seen by those who read it.
#pragma once
#include <algorithm>

#include "zero_row_24.h"

namespace lscd::zero_row_24 {

struct Encoding {
    Grid grid;
    bool pairs;
    const u8* data;
    const i32 *chunk_start, *first_chunk;

    i64 block_of(i64 chunk) const {
        const i32* end = first_chunk + grid.blocks() + 1;
        return std::upper_bound(first_chunk, end, chunk) - first_chunk - 1;
    }
};

struct Chunk {
    Block block;
    i64 nth, rows;  // of the block's chunks; rows of A below the block's first one
    bool pairs, extra;
    const u8* bytes;
    i64 size;

    Chunk(const Encoding& A, i64 chunk, i64 z)
        : block(A.grid, z), nth(chunk - A.first_chunk[z]), rows(A.grid.M - block.row),
          pairs(A.pairs), extra(nth >= block.regular),
          bytes(A.data + START_BYTES * A.chunk_start[chunk]),
          size(START_BYTES * (i64(A.chunk_start[chunk + 1]) - A.chunk_start[chunk])) {}

    u16 half(i64 at) const {
        u16 value;
        memcpy(&value, bytes + at, 2);
        return value;
    }
    u16 start(i64 m, i64 g) const { return half(STARTS + 2 * (TILES * g + m)) & 0x3fff; }
    u16 size_bits(i64 m, i64 g) const { return half(STARTS + 2 * (TILES * g + m)) >> 14; }
    u16 listed(i64 m, i64 group, i64 i) const {
        return half(LISTS + 2 * ((m * GROUPS + group) * 4 + i));
    }

    // Column in the slice of index i of a group; NOTHING, which no slice has, where there is none.
    i64 column(i64 m, i64 group, i64 i) const {
        return extra ? listed(m, group, i) : nth * COLS + 3 * group + i;
    }
    int nibble(i64 m, i64 g, int order) const {
        return half(16 * (4 * g + order / 8) + 4 * m + 2 * (order / 4 % 2)) >> 4 * (order % 4) & 15;
    }

    // Calls visit(row in the block, column in the slice, offset) for each value of a stream;
    // returns the offset after the last one.
    template <class Visit>
    i64 for_each_value(i64 m, int g, Visit visit) const {
        i64 at = start(m, g);
        for (int order = 0; order < ORDERS; order++) {
            int code = nibble(m, g, order), first = code & 3, second = code >> 2;
            i64 row = m * TILE_ROWS + row_of(g, order), group = group_of(order);
            bool slot0 = first != 3, slot1 = second != 3;
            if (slot0) visit(row, column(m, group, first), at);
            if (slot1) visit(row, column(m, group, second), pairs || slot0 ? at + 2 : at);
            at += pairs ? 4 * slot1 : 2 * slot0 + 2 * slot1;
        }
        return at;
    }
    template <class Visit>
    void for_each_value(Visit visit) const {
        for (i64 m = 0; m < TILES; m++)
            for (int g = 0; g < 8; g++) for_each_value(m, g, visit);
    }
};

}  // namespace lscd::zero_row_24
