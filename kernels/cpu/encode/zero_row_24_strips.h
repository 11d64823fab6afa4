// Zero-row 2:4 in strips of 16 rows, the format of the Hopper kernel for 17 columns and more: how
// its bytes lie. What a tile, a stream and the metadata are: zero_row_24_tile.h. Streams are
// paired.
//
//   chunk 16x192      four tiles, side by side: a warp's part of a wgmma.sp for 64 rows
//   strip 16 x K      a chunk for each round, in the same order for all strips; whole 64 rows
//
// A row of a group has two slots. Where it has all three weights, one of them goes elsewhere:
//   levels = 1        the middle one to a column of level 1: column i there is the middle of group
//                     i. A chunk of level 1 stands for the three regular ones before it: rounds 3,
//                     7, 11, ... and the last. What has no slot there either is one of its entries.
//                     Other middle ones follow them where that spares a zero: zero_row_24_sent.h.
//   levels = 0        to an entry of its chunk.
//
//   byte 512  start u16 [g][tile]       bits 14-15: bits 2 tile, 2 tile + 1 of byte g / 2 of
//                                       { u8 steps; u16 size in 16 bytes; u8 0 }
//        576  entry u32 [steps][8]      value | row of B' << 16 | row of the strip << 24
//        ...  streams, then at least 4 bytes of zeros; a multiple of 16 bytes in all
//
// B' are the 256 rows of B that meet a chunk: k, k + 1, k + 2, zeros, k + 3, ... The place of an
// entry in its step is its row of B', modulo 8: no two of them meet in a bank. Places 3 and 7 are
// rows of zeros, as are those not in use. So a group with an even number has places 0 to 2, one
// with an odd number 4 to 6, and the full groups of either kind fill their places in turn, in the
// order of streams: the weight with index n % 3 of the nth goes to step n / 3.
#pragma once
#include <algorithm>

#include "zero_row_24_sent.h"

namespace lscd::zero_row_24::strips {

constexpr i64 ROWS = TILE_ROWS, COLS = TILES * TILE_COLS, STRIPS = 4;  // the last: of 64 rows
constexpr i64 ENTRIES = header_bytes(PAIRS), PLACES = 8, STEP_BYTES = 4 * PLACES, UNIT = START_BYTES;
// Of a chunk without a zero: 512 groups of either kind, and two values of each in streams.
constexpr i64 MOST_STEPS = 171;
constexpr i64 MOST_BYTES = ENTRIES + STEP_BYTES * MOST_STEPS + 2 * 2 * 1024 + TAIL;
constexpr i64 MOST_UNITS = (MOST_BYTES + UNIT - 1) / UNIT;

constexpr u32 no_entry(i64 place) { return u32(place / 4 * 4 + 3) << 16; }

// A [M, K], cut into chunks.
struct Grid {
    i64 M, K, levels;
    i64 regular() const { return ceil_div(K, COLS); }
    i64 rounds() const { return regular() + (levels ? ceil_div(regular(), 3) : 0); }
    i64 chunks() const { return ceil_div(M, STRIPS * ROWS) * STRIPS * rounds(); }
    bool of_level(i64 round) const { return levels && (round % 4 == 3 || round == rounds() - 1); }
    // Of a regular round: how many of them are before it.
    i64 nth(i64 round) const { return levels ? round - round / 4 : round; }
    // Of the nth regular chunk of a strip: where its words stand in Sent; the place of tile m's first group in
    // its group of level 1.
    i64 sending(i64 strip, i64 nth) const { return strip * regular() + nth; }
    static int phase(i64 nth, i64 m) { return int((nth % 3 * TILES + m) * GROUPS % 3); }
    // Column of A of column j of a round.
    i64 column(i64 round, i64 j) const {
        if (of_level(round)) return 3 * (round / 4 * COLS + j) + 1;
        return nth(round) * COLS + j;
    }
};

// Weights of a chunk that have no slot.
class Entries {
    i64 full_[2] = {};  // groups so far, with an even and with an odd number
    u32 entry_[MOST_STEPS][PLACES];

  public:
    i64 steps() const { return ceil_div(std::max(full_[0], full_[1]), 3); }
    i64 bytes() const { return STEP_BYTES * steps(); }
    void copy(u8* to) const { memcpy(to, entry_, bytes()); }

    // Adds one of three weights of a row; returns which.
    int add(const u16* weights, i64 row, i64 group) {
        i64 kind = group % 2, nth = full_[kind], index = nth % 3, before = steps();
        full_[kind]++;
        if (steps() > before)
            for (i64 place = 0; place < PLACES; place++) entry_[before][place] = no_entry(place);
        u32 to = u32(4 * group + index) << 16 | u32(row) << 24;
        entry_[nth / 3][4 * kind + index] = weights[index] | to;
        return int(index);
    }
};

// What a chunk holds.
struct Contents {
    Stream streams[STREAMS];
    Entries entries;

    Contents(const u16* dense, const Grid& A, const Sent& sent, i64 chunk) {
        i64 strip = chunk / A.rounds(), round = chunk % A.rounds();
        for (i64 m = 0; m < TILES; m++) {
            Tile tile;
            if (A.of_level(round)) {
                load_sent(tile, dense, A, sent, strip, round / 4, m);
            } else {
                load(tile, dense, A, strip, A.nth(round), m);
                if (A.levels) sent.take(tile, A.sending(strip, A.nth(round)), m);
            }
            auto leaves = [&](int row, int group) {
                return entries.add(tile.weight[row] + 3 * group, row, m * GROUPS + group);
            };
            for (i64 g = 0; g < TILE_STREAMS; g++)
                streams[m * TILE_STREAMS + g] = tile.stream(int(g), PAIRS, leaves);
        }
    }

    // Tile m of the nth regular chunk of a strip.
    static void load(Tile& tile, const u16* dense, const Grid& A, i64 strip, i64 nth, i64 m) {
        i64 row = strip * ROWS, col = nth * COLS + m * TILE_COLS;
        tile.load(dense + row * A.K + col, A.K, A.M - row, std::clamp<i64>(A.K - col, 0, TILE_COLS));
    }

  private:
    // Tile m of a chunk of level 1: column i is group i of the three regular ones before.
    static void load_sent(Tile& tile, const u16* dense, const Grid& A, const Sent& sent, i64 strip,
                          i64 level, i64 m) {
        memset(tile.weight, 0, sizeof tile.weight);
        for (i64 j = 0; j < TILE_COLS; j++) {
            i64 i = m * TILE_COLS + j, nth = 3 * level + i / (TILES * GROUPS), n = i % (TILES * GROUPS);
            for (i64 r = 0; nth < A.regular() && r < ROWS; r++)
                if (sent.from(A.sending(strip, nth), n / GROUPS, r, n % GROUPS))
                    tile.weight[r][j] = dense[(strip * ROWS + r) * A.K + 3 * (level * COLS + i) + 1];
        }
    }
};

}  // namespace lscd::zero_row_24::strips
