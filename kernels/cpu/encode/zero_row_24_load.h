// The weights of a chunk of zero-row 2:4, and their streams (layout: zero_row_24.h).
#pragma once
#include "zero_row_24.h"

namespace lscd::zero_row_24 {

// The tiles of chunk `nth` of block z.
struct Tiles {
    i64 pieces;
    Tile tile[PIECES][TILES];

    Tiles(const Plan& plan, i64 z, i64 nth) {
        Block block(plan.grid, z);
        pieces = block.pieces(nth);
        for (i64 m = 0; m < TILES; m++)
            if (nth >= block.fixed) load_extra(plan, block, plan.queue(z, m), nth - block.fixed, m);
            else for (i64 piece = 0; piece < pieces; piece++) load_fixed(plan, block, z, nth, piece, m);
    }
    void streams(Kind kind, Stream (&streams)[STREAMS]) const {
        for (int s = 0; s < STREAMS; s++) {
            int m = s / TILE_STREAMS, g = s % TILE_STREAMS;
            streams[s] = kind == SIXES ? sixes(m, g) : tile[0][m].stream(g, kind, Middle());
        }
    }

  private:
    Stream sixes(int m, int g) const {
        Writer writer(SIXES);
        for (i64 piece = 0; piece < pieces; piece++) tile[piece][m].add_sixes(writer, piece, g);
        return writer.finish();
    }
    void load_fixed(const Plan& plan, const Block& block, i64 z, i64 nth, i64 piece, i64 m) {
        i64 row = block.row + m * TILE_ROWS, col = block.column(nth, piece * COLS), left = block.cols - col;
        i64 K = plan.grid.K, rows = plan.grid.M - row;
        const u16* origin = plan.dense + row * K + block.col + col;
        if (nth < block.regular) {
            tile[piece][m].load(origin, K, rows, min(COLS, left));
            if (plan.sent.words) plan.sent.take(tile[piece][m], sending(plan.grid, z, nth), m);
        } else if (plan.sent.words) {
            load_sent(plan, block, z, nth - block.regular, m);
        } else {
            tile[piece][m].load_middles(origin, K, rows, left);
        }
    }
    // Of a chunk of level 1: column i is group i of three regular ones.
    void load_sent(const Plan& plan, const Block& block, i64 z, i64 level, i64 m) {
        memset(&tile[0][m], 0, sizeof tile[0][m]);
        const u16* origin = plan.dense + (block.row + m * TILE_ROWS) * plan.grid.K + block.col;
        for (i64 i = 0; i < COLS; i++) {
            i64 nth = 3 * level + i / GROUPS, col = block.column(block.regular + level, i);
            for (i64 r = 0; nth < block.regular && r < TILE_ROWS; r++)
                if (plan.sent.from(sending(plan.grid, z, nth), m, r, i % GROUPS))
                    tile[0][m].weight[r][i] = origin[r * plan.grid.K + col];
        }
    }
    void load_extra(const Plan& plan, const Block& block, const Queue& queue, i64 nth, i64 m) {
        memset(&tile[0][m], 0, sizeof tile[0][m]);
        const u16* origin = plan.dense + (block.row + m * TILE_ROWS) * plan.grid.K + block.col;
        for (i64 i = 0; i < COLS; i++) {
            i64 at = queue.word_of(nth, i), col = queue.column(at);
            for_each_bit(queue.rows(at) & ~queue.waiting(at),
                         [&](i64 r) { tile[0][m].weight[r][i] = origin[r * plan.grid.K + col]; });
        }
    }
};

// Tile m of a nested chunk.
inline void load_nested(NestedTile& tile, const Plan& plan, i64 z, i64 nth, i64 m) {
    Block block(plan.grid, z);
    i64 row = block.row + m * TILE_ROWS, rows = std::clamp<i64>(plan.grid.M - row, 0, TILE_ROWS);
    const u16* origin = plan.dense + row * plan.grid.K + block.col;
    Queue queue = plan.queue(z, m);
    memset(&tile, 0, sizeof tile);
    for (i64 i = 0; i < NESTED_COLS; i++) {
        bool extra = nth >= block.regular;
        i64 at = queue.word_of(nth - block.regular, i), col = extra ? queue.column(at) : block.column(nth, i);
        u32 taken = extra ? queue.rows(at) & ~queue.waiting(at) : col < block.cols ? (1u << rows) - 1 : 0;
        for_each_bit(taken, [&](i64 r) { tile.weight[r][i] = origin[r * plan.grid.K + col]; });
    }
}

inline void streams_of(const Plan& plan, i64 z, i64 nth, Stream (&streams)[STREAMS]) {
    if (plan.grid.kind != NESTED) return Tiles(plan, z, nth).streams(plan.grid.kind, streams);
    bool extra = nth >= Block(plan.grid, z).regular;
    for (int m = 0; m < TILES; m++) {
        NestedTile tile;
        load_nested(tile, plan, z, nth, m);
        for (int g = 0; g < TILE_STREAMS; g++) streams[m * TILE_STREAMS + g] = tile.stream(g, extra);
    }
}

}  // namespace lscd::zero_row_24
