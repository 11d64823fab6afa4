// A chunk of a zero-row 2:4 encoding, seen by those who read it.
#pragma once
#include <algorithm>

#include "zero_row_24.h"
#include "zero_row_24_streams.h"

namespace lscd::zero_row_24 {

struct Encoding {
    Grid grid;
    const u8* data;
    const i32 *chunk_start, *first_chunk;

    i64 block_of(i64 chunk) const {
        const i32* end = first_chunk + grid.blocks() + 1;
        return std::upper_bound(first_chunk, end, chunk) - first_chunk - 1;
    }
};

struct Chunk : Streams {
    Block block;
    i64 nth, rows;  // of the block's chunks; rows of A below the block's first one
    bool extra;

    Chunk(const Encoding& A, i64 chunk, i64 z)
        : Streams{A.data + START_BYTES * A.chunk_start[chunk],
                  START_BYTES * (i64(A.chunk_start[chunk + 1]) - A.chunk_start[chunk]), A.grid.kind,
                  Block(A.grid, z).pieces(chunk - A.first_chunk[z])},
          block(A.grid, z), nth(chunk - A.first_chunk[z]), rows(A.grid.M - block.row),
          extra(nth >= block.fixed) {}

    i64 first() const { return values_at(kind, extra, pieces); }  // where values begin

    u16 listed(i64 m, i64 group, i64 i) const {
        return half(header_bytes(kind) + 2 * ((m * groups_of(kind) + group) * 4 + i));
    }
    // Column in the slice of index i of a group; NOTHING, which no slice has, where there is none.
    i64 column(i64 m, i64 group, i64 i) const {
        return extra ? listed(m, group, i) : block.column(nth, 3 * group + i);
    }
    bool misplaces(i64 m, int g) const { return Streams::misplaces(m, g, !extra); }
    bool inside(i64 row, i64 column) const { return row < rows && column < block.cols; }

    // Calls visit(row in the block, column in the slice, offset) for each value of a stream;
    // returns the offset after the last one.
    template <class Visit>
    i64 for_each_value(i64 m, int g, Visit visit) const {
        return for_each_of_stream(m, g, [&](int row, int group, int index, i64 at) {
            visit(m * TILE_ROWS + row, column(m, group, index), at);
        });
    }
    template <class Visit>
    void for_each_value(Visit visit) const {
        for (i64 m = 0; m < TILES; m++)
            for (int g = 0; g < TILE_STREAMS; g++) for_each_value(m, g, visit);
    }
};

}  // namespace lscd::zero_row_24
