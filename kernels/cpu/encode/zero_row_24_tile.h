// One 16x48 tile of zero-row 2:4: its weights, and how they become nibbles of metadata and a
// stream. The formats that stack tiles: zero_row_24.h, zero_row_24_strips.h.
//
// A group is three columns of a row. mma.sp multiplies two values of a group, chosen by two 2-bit
// indices (a nibble of metadata) among four rows of B: the group's three, and one of zeros, index
// 3, for a slot that is not in use. Whatever finite value was loaded there is multiplied by zero.
//
//   tile 16x48        two k-steps of mma.sp, 16 groups in a row: group = step * 8 + half * 4 + t
//   stream (tile, g)  the values of rows g and g + 8 of a tile, groups in the order (step, half,
//                     row half, t): lane (g, t) of gather (step, half, row half) finds its group
//                     by counting the slots in use before it
//   chunk             four tiles
//
// Packed streams hold values one after another, slot 0 before slot 1. Paired streams are 4-byte
// words, one for each slot 1 in use: two values of a group, or two lone ones, the first in slot 0
// and the second in slot 1 of theirs. A lone value before a pair takes slot 1, beside a zero.
//
//   byte 0    metadata u32 [32][tile]   lane (g, 2 step + half): low 16 bits row g, high 16 row
//                                       g + 8; nibble t: index of slot 0 | index of slot 1 << 2
//        512  start u16 [g][tile]       bits 0-13: of the stream, in bytes from the chunk's start;
//                                       bits 14-15: each format's own
//        576  each format's own, then streams, then at least 4 bytes of zeros
//
// Of packed streams the same metadata are codes of 3 bits, since a lone value has slot 0:
//
//   byte 0    code u32 [32][3]          word m: bits 0-2 of its nibbles are codes of tile m; bit 3
//                                       is bit m of a code of tile 3
//        384  start, and so on
//
//   code      1     2     3     4    5    6    7            0 stands for no pair: slots 0 and 1
//   indices   0, 1  0, 2  1, 2  0, -  1, -  2, -  -, -      would have one index
//
// Group n of a lane's eight has nibble n / 2 + n % 2 * 4: PRMT looks four codes up at once, and
// results of even and odd groups are nibbles of the same bytes.
#pragma once
#include "scan.h"

namespace lscd::zero_row_24 {

constexpr i64 TILE_ROWS = 16, TILE_COLS = 48, TILES = 4, GROUPS = 16, TILE_STREAMS = 8;
constexpr i64 STREAMS = 32, ORDERS = 32;  // streams of a chunk, groups of a stream
constexpr i64 starts_at(bool pairs) { return pairs ? 512 : 384; }
constexpr i64 header_bytes(bool pairs) { return starts_at(pairs) + 64; }
constexpr i64 TAIL = 4;
constexpr i64 START_BYTES = 16;  // of chunk_start

// Position in a stream -> row of the tile, group.
constexpr int row_of(int g, int order) { return g + 8 * (order >> 2 & 1); }
constexpr int group_of(int order) { return (order >> 3) * 4 + (order & 3); }

// Bit 3 i of the mask of `TILE_COLS` columns: all three of group i are non-zero.
inline u64 full_groups(u64 nonzero) {
    return nonzero & nonzero >> 1 & nonzero >> 2 & 0x0000249249249249;
}

constexpr u32 EMPTY = 15;  // nibble of a group without values: both slots have index 3

struct Stream {
    u32 code[4] = {};  // nibble `order`: the metadata words of lanes 4 g to 4 g + 3
    u16 value[2 * ORDERS];
    int count = 0;  // halves, zeros beside lone values included

    u32 nibble(int order) const { return code[order / 8] >> 4 * (order % 8) & 15; }
    void set(int order, u32 nibble) { code[order / 8] |= nibble << 4 * (order % 8); }
    void push(u16 weight) { value[count++] = weight; }
};

// Codes of 3 bits, and the nibbles that they stand for.
constexpr u32 NIBBLES[] = {0, 4, 8, 9, 12, 13, 14, 15};
constexpr u32 code_of(u32 nibble) { return nibble % 4 + (nibble < 12 ? nibble / 4 : 4); }
// Bits of a code word of a lane in front of group n of its eight.
constexpr int code_shift(int n) { return 4 * (n / 2 + n % 2 * 4); }
constexpr i64 code_word(i64 lane, i64 word) { return 12 * lane + 4 * word; }  // where it stands

// A lane's codes of tile m: three bits of one word, or one of each.
inline void put_codes(u8* chunk, u32 metadata, i64 m, i64 lane) {
    u32 words[3];
    memcpy(words, chunk + code_word(lane, 0), sizeof words);
    for (int n = 0; n < 8; n++) {
        u32 code = code_of(metadata >> 4 * n & 15), shift = code_shift(n);
        if (m < 3) words[m] |= code << shift;
        for (u32 bit = 0; m == 3 && bit < 3; bit++) words[bit] |= (code >> bit & 1) << (shift + 3);
    }
    memcpy(chunk + code_word(lane, 0), words, sizeof words);
}

// Metadata, start (with the bits that a format keeps above it) and values of a stream, into a chunk
// of zeros.
inline void put_stream(u8* chunk, const Stream& stream, bool pairs, i64 m, i64 g, i64 start,
                       i64 above) {
    for (int i = 0; i < 4; i++)
        if (pairs) memcpy(chunk + 16 * (4 * g + i) + 4 * m, &stream.code[i], 4);
        else put_codes(chunk, stream.code[i], m, 4 * g + i);
    u16 stated = u16(start | above << 14);
    memcpy(chunk + starts_at(pairs) + 2 * (TILES * g + m), &stated, 2);
    memcpy(chunk + start, stream.value, 2 * stream.count);
}

// Streams that grow group by group. `waiting` is the lone value of a paired stream whose word has
// room: it is written once the next value says in which slot.
class Writer {
  public:
    explicit Writer(bool pairs) : pairs_(pairs) {}

    void two(int order, u32 i, u16 a, u32 j, u16 b) {
        if (waiting_ >= 0) place(0, 3 | index_ << 2, value_);
        stream_.set(order, i | j << 2);
        stream_.push(a), stream_.push(b);
    }
    void one(int order, u32 i, u16 a) {
        if (!pairs_) {
            stream_.set(order, i | 3 << 2);
            stream_.push(a);
        } else if (waiting_ >= 0) {
            stream_.set(order, 3 | i << 2);
            place(value_, index_ | 3 << 2, a);
        } else {
            waiting_ = order, index_ = i, value_ = a;
        }
    }
    void none(int order) { stream_.set(order, EMPTY); }
    Stream finish() {
        if (waiting_ >= 0) place(value_, index_ | 3 << 2, 0);
        return stream_;
    }

  private:
    // The word of the waiting value, and its nibble.
    void place(u16 low, u32 nibble, u16 high) {
        stream_.set(waiting_, nibble);
        stream_.push(low), stream_.push(high);
        waiting_ = -1;
    }
    Stream stream_;
    bool pairs_;
    int waiting_ = -1;
    u32 index_ = 0;
    u16 value_ = 0;
};

// Which of a group's three weights has no slot: always the middle one.
struct Middle {
    int operator()(int /*row*/, int /*group*/) const { return 1; }
};

struct Tile {
    u16 weight[TILE_ROWS][TILE_COLS];

    // The values of rows g and g + 8; where a group has three, without that of leaves(row, group).
    template <class Leaves>
    Stream stream(int g, bool pairs, Leaves leaves) const {
        Writer writer(pairs);
        for (int order = 0; order < ORDERS; order++) {
            int row = row_of(g, order), group = group_of(order);
            const u16* w = weight[row] + 3 * group;
            int first = w[0] ? 0 : w[1] ? 1 : 2, last = w[2] ? 2 : w[1] ? 1 : 0;
            if (first + 1 < last && w[1]) {
                int away = leaves(row, group);
                first = away == 0 ? 1 : 0, last = away == 2 ? 1 : 2;
            }
            if (first < last) writer.two(order, first, w[first], last, w[last]);
            else if (first == last) writer.one(order, first, w[first]);
            else writer.none(order);
        }
        return writer.finish();
    }
    // Rows and columns of a dense matrix of K columns, from `origin` on; all else is zeros.
    void load(const u16* origin, i64 K, i64 rows, i64 cols) {
        for (i64 r = 0; r < TILE_ROWS; r++) {
            i64 n = r < rows ? cols : 0;
            if (n) memcpy(weight[r], origin + r * K, 2 * n);
            memset(weight[r] + n, 0, 2 * (TILE_COLS - n));
        }
    }
    // The middle weights of groups that are full; `origin` is that of the first, `left` the columns
    // from there on.
    void load_middles(const u16* origin, i64 K, i64 rows, i64 left) {
        memset(weight, 0, sizeof weight);
        for (i64 r = 0; r < min(TILE_ROWS, rows); r++)
            for (i64 i = 0; i < TILE_COLS && 3 * i + 1 < left; i++) {
                const u16* w = origin + r * K + 3 * i;
                if (w[-1] && w[0] && w[1]) weight[r][i] = w[0];
            }
    }
};

}  // namespace lscd::zero_row_24
