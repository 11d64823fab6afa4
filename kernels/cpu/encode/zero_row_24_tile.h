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
//   chunk             four tiles; or eight, in two pieces of four, side by side
//
// Packed streams hold values one after another, slot 0 before slot 1. Paired streams are 4-byte
// words, one for each slot 1 in use: two values of a group, or two lone ones, the first in slot 0
// and the second in slot 1 of theirs. A lone value before a pair takes slot 1, beside a zero.
//
// Streams of sixes are such words, but of six columns: those of groups n and n + 8, one of either step,
// which have two values together. Both steps of mma.sp multiply the same registers then, and each
// slot has index 3 in one of them, or in both. A stream has 16 sixes of a tile, in the order (half, row half,
// t), and behind them, where a chunk has two pieces side by side, those of the tile on the right.
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
//
// Of streams of sixes they are indices, and a bit for each slot, whose step it is of:
//
//   byte 0    index u32 [16][tile]      (g, half): as the metadata of either step that is not 3
//        256  step u32 [16][2]          bit 2 (2 n + slot): of nibble n of tiles 0 and 2; 1 more: 1 and 3
//        384  start
//        448  index and step of the second piece, if there is one, and so on
#pragma once
#include "scan.h"

namespace lscd::zero_row_24 {

constexpr i64 TILE_ROWS = 16, TILE_COLS = 48, TILES = 4, GROUPS = 16, TILE_STREAMS = 8;
constexpr i64 STREAMS = 32, ORDERS = 32;  // streams of a chunk, groups of a stream
constexpr i64 PIECES = 2;                 // tiles side by side in a chunk, at most
constexpr int SIXES_OF_PIECE = 16;        // of a stream
constexpr int MOST_HALVES = 128;          // nested: a word for each of 48 groups, and two values for each of 16
// Of streams. Encodings state these numbers (Streams of analysis/zero_row_24.py).
enum Kind { PACKED, PAIRS, SIXES, NESTED };  // the last: zero_row_24_nested.h
constexpr i64 pieces_of(Kind kind) { return kind == SIXES ? PIECES : 1; }
constexpr i64 starts_at(Kind kind) { return kind == NESTED ? 768 : kind == PAIRS ? 512 : 384; }
constexpr i64 header_bytes(Kind kind) { return starts_at(kind) + 64; }
constexpr i64 least_units(Kind kind) { return kind == NESTED ? 28 : 0; }  // of a chunk: see zero_row_24.h
constexpr i64 STEPS_AT = 256;  // of sixes, behind their indices
// Where the metadata of a piece of sixes stand, and what those of a second one take behind starts.
constexpr i64 piece_at(i64 piece) { return piece * header_bytes(SIXES); }
constexpr i64 SECOND_PIECE_BYTES = starts_at(SIXES);
constexpr i64 TAIL = 4;
constexpr i64 START_BYTES = 16;  // of chunk_start

// Position in a stream -> row of the tile, group.
constexpr int row_of(int g, int order) { return g + 8 * (order >> 2 & 1); }
constexpr int group_of(int order) { return (order >> 3) * 4 + (order & 3); }

// Bit 3 i of the mask of `TILE_COLS` columns: all three of group i are non-zero.
inline u64 full_groups(u64 nonzero) {
    return nonzero & nonzero >> 1 & nonzero >> 2 & 0x0000249249249249;
}

// Columns of a six are counted 0, 1, 2, 4, 5, 6: bit 2 says of which step. Indices of two slots become the
// nibble of that step's group.
constexpr int SIX = 6;
constexpr u32 place_in_six(int i) { return u32(i + i / 3); }
constexpr i64 column_of_six(i64 six, i64 i) { return six * 3 + i % 3 + i / 3 * (TILE_COLS / 2); }
// Rows that have a weight in column i of a six, and one on either side; rows(k): that have one in column k.
template <class Rows>
u32 between(i64 i, Rows rows) {
    u32 before = 0, behind = 0;
    for (i64 k = 0; k < i; k++) before |= rows(k);
    for (i64 k = i + 1; k < SIX; k++) behind |= rows(k);
    return rows(i) & before & behind;
}
constexpr u32 nibble_of_step(u32 slot0, u32 slot1, u32 step) {
    return (slot0 / 4 == step ? slot0 & 3 : 3) | (slot1 / 4 == step ? slot1 & 3 : 3) << 2;
}

// Where the nibble of a six for a step stands among those of its stream.
constexpr int nibble_of_six(int order, int step) {
    return order / SIXES_OF_PIECE * int(ORDERS) + step * SIXES_OF_PIECE + order % SIXES_OF_PIECE;
}

struct Stream {
    u32 code[4 * PIECES] = {};  // of a piece: the metadata words of lanes 4 g to 4 g + 3
    u16 value[MOST_HALVES];
    int count = 0;   // halves, zeros beside lone values included
    int orders = 0;  // groups, or sixes
    u64 sends = 0;   // nested: groups whose middle weight is sent

    u32 nibble(int nth) const { return code[nth / 8] >> 4 * (nth % 8) & 15; }
    // Of a group, or of a six: which slots are in use, those whose index is not 3.
    u32 in_use(int order, Kind kind) const {
        if (kind != SIXES) return nibble(order);
        return nibble(nibble_of_six(order, 0)) & nibble(nibble_of_six(order, 1));
    }
    // Indices of two slots.
    void set(int order, Kind kind, u32 slot0, u32 slot1) {
        for (int step = 0; step < (kind == SIXES ? 2 : 1); step++)
            put(kind == SIXES ? nibble_of_six(order, step) : order, nibble_of_step(slot0, slot1, u32(step)));
        orders = order + 1 > orders ? order + 1 : orders;
    }
    void push(u16 weight) { value[count++] = weight; }

  private:
    void put(int nth, u32 nibble) { code[nth / 8] |= nibble << 4 * (nth % 8); }
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

// Bits 2 k of a word in which field k, of two bits, is 3: a slot that is not in use.
constexpr u32 EVEN = 0x55555555;
constexpr u32 unused(u32 codes) { return codes & codes >> 1 & EVEN; }

// Indices and steps of a tile of sixes, into the metadata of its piece; `nth`: of (g, half).
inline void put_sixes(u8* piece, u32 step0, u32 step1, i64 m, i64 nth) {
    u32 indices = step0 & step1, steps;
    memcpy(piece + 16 * nth + 4 * m, &indices, sizeof indices);
    u8* to = piece + STEPS_AT + 8 * nth + 4 * (m / 2);
    memcpy(&steps, to, sizeof steps);
    steps |= (unused(step0) & ~unused(step1)) << m % 2;
    memcpy(to, &steps, sizeof steps);
}
// The metadata of one of the steps.
inline u32 of_sixes(u32 indices, u32 steps, i64 m, int step) {
    u32 others = (steps >> m % 2 & EVEN) * 3;
    return indices | (step ? ~others : others);
}

// Metadata, start (with the bits that a format keeps above it) and values of a stream, into a chunk
// of zeros.
inline void put_stream(u8* chunk, const Stream& stream, Kind kind, i64 m, i64 g, i64 start,
                       i64 above) {
    const u32* code = stream.code;
    for (int i = 0; (kind == PACKED || kind == PAIRS) && i < 4; i++)
        if (kind == PAIRS) memcpy(chunk + 16 * (4 * g + i) + 4 * m, &code[i], 4);
        else put_codes(chunk, code[i], m, 4 * g + i);
    for (int i = 0; kind == SIXES && i < stream.orders / 8; i++) {  // (piece, half)
        const u32* steps = code + i / 2 * 4 + i % 2;
        put_sixes(chunk + piece_at(i / 2), steps[0], steps[2], m, 2 * g + i % 2);
    }
    u16 stated = u16(start | above << 14);
    memcpy(chunk + starts_at(kind) + 2 * (TILES * g + m), &stated, 2);
    memcpy(chunk + start, stream.value, 2 * stream.count);
}

// Streams that grow group by group. `waiting` is the lone value of a paired stream whose word has
// room: it is written once the next value says in which slot.
class Writer {
  public:
    explicit Writer(Kind kind) : kind_(kind) {}

    void two(int order, u32 i, u16 a, u32 j, u16 b) {
        if (waiting_ >= 0) place(0, NONE, index_, value_);
        stream_.set(order, kind_, i, j);
        stream_.push(a), stream_.push(b);
    }
    void one(int order, u32 i, u16 a) {
        if (kind_ == PACKED) {
            stream_.set(order, kind_, i, NONE);
            stream_.push(a);
        } else if (waiting_ >= 0) {
            stream_.set(order, kind_, NONE, i);
            place(value_, index_, NONE, a);
        } else {
            waiting_ = order, index_ = i, value_ = a;
        }
    }
    void none(int order) { stream_.set(order, kind_, NONE, NONE); }
    // Behind a nested stream's words stand values of level 1: they are counted from slots 1.
    Stream finish() {
        if (waiting_ >= 0 && kind_ == NESTED) place(0, NONE, index_, value_);
        if (waiting_ >= 0) place(value_, index_, NONE, 0);
        return stream_;
    }

  private:
    static constexpr u32 NONE = 3;  // an index: of a slot that is not in use
    // The word of the waiting value, and the indices of its group.
    void place(u16 low, u32 slot0, u32 slot1, u16 high) {
        stream_.set(waiting_, kind_, slot0, slot1);
        stream_.push(low), stream_.push(high);
        waiting_ = -1;
    }
    Stream stream_;
    Kind kind_;
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

    // The values of rows g and g + 8 as sixes, behind those of the tile on the left, which is piece `piece` - 1:
    // the first and the last one of each.
    void add_sixes(Writer& writer, i64 piece, int g) const {
        for (int nth = 0; nth < SIXES_OF_PIECE; nth++) {
            auto w = [&](int i) { return weight[row_of(g, nth)][column_of_six(group_of(nth), i)]; };
            int first = 0, last = SIX - 1, order = int(piece) * SIXES_OF_PIECE + nth;
            while (first < last && !w(first)) first++;
            while (last > first && !w(last)) last--;
            u32 i = place_in_six(first), j = place_in_six(last);
            if (first < last) writer.two(order, i, w(first), j, w(last));
            else if (w(first)) writer.one(order, i, w(first));
            else writer.none(order);
        }
    }
    // The values as groups, packed or as pairs; where one has three, without that of leaves(row, group).
    template <class Leaves>
    Stream stream(int g, Kind kind, Leaves leaves) const {
        Writer writer(kind);
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
