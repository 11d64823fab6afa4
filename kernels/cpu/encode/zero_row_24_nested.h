// Zero-row 2:4 in chunks that have their level 1 inside: pairs, for which nothing says what goes there but
// the groups themselves.
//
//   tile 16x72        three k-steps of mma.sp, and a fourth one, level 1: the middle columns of their groups
//   group (step, j)   columns 18 (j / 2) + 6 step + 3 (j % 2) and two more, j = half * 4 + t: neither a step's
//                     rows of B nor those of level 1 meet in a bank
//   level 1           group j has the middle columns of groups j of the three steps, and two weights for each row:
//                     those of the first and the last group that send one
//   sends             where a group has three weights, the middle one. Others where that spares a zero beside a
//                     lone value (zero_row_24_sent.h), and no more than one of the three sends beside it
//   extra chunks      where all three have three weights, the middle one of the second group; 72 columns of
//                     a tile are listed, three a group, in the order (step, j)
//   stream (tile, g)  words of pairs, groups in the order (step, half, row half, t), and values of level 1 behind
//                     them, one after another as in packed streams, its groups in the order (half, row half, t)
//
//   byte 0    plane u32 [32][4]   lane (g, 2 step + half) of steps 0 and 1: bit m of nibble n of plane i is bit i of
//                                 the code of tile m; n = row half * 4 + t
//      512    plane u32 [16][4]   (g, half) of step 2
//      768    start u16 [g][tile], as of other chunks
//      832    extra chunks only: column u16 [tile][step][lane]
//
// A code is the nibble of metadata, or says that the group sends a weight as well:
//
//   nibble    3   8  11  12  14  15
//   code     10   6   5   2   0   1
#pragma once
#include <algorithm>

#include "zero_row_24_sent.h"

namespace lscd::zero_row_24 {

constexpr i64 NESTED_COLS = 72, NESTED_GROUPS = 24;  // of a tile
constexpr int NESTED_ORDERS = 48, LEVEL_ORDERS = 16;  // of a stream: groups of three steps, and of level 1
constexpr int LEVEL_SLOTS = 2;                        // of such a group

// Of a group, its first column; of column i, counted group by group.
constexpr i64 nested_column(i64 i) {
    i64 group = i / 3, step = group / 8, j = group % 8;
    return 18 * (j / 2) + 6 * step + 3 * (j % 2) + i % 3;
}

constexpr u32 sending_code(u32 nibble) { return nibble == 3 ? 10 : nibble ^ 14; }
constexpr bool is_sending(u32 code) { return 1 << code & (1 << 10 | 1 << 6 | 1 << 5 | 1 << 2 | 1 << 1 | 1); }
constexpr u32 nibble_of_code(u32 code) { return !is_sending(code) ? code : code == 10 ? 3 : code ^ 14; }
constexpr u32 FULL = 6;  // the code of a group with three weights

// Groups of a stream whose middle columns are a group of level 1, that of `order` among them.
constexpr u64 of_one_level(int order) { return u64(0x100010001) << order % LEVEL_ORDERS; }
inline int senders(u64 sends, int order) { return __builtin_popcountll(sends & of_one_level(order)); }
// Values of a group of level 1.
inline int values_of_level(u64 sends, int order) { return std::min(senders(sends, order), LEVEL_SLOTS); }
// Calls visit(the group that sends it) for each value of level 1, in their order: of three groups the first and the
// last one.
template <class Visit>
void for_each_of_level(u64 sends, Visit visit) {
    for (int order = 0; sends && order < LEVEL_ORDERS; order++)
        for (int step = 0; step < 3; step++) {
            int at = LEVEL_ORDERS * step + order;
            bool no_slot = step == 1 && senders(sends, order) > LEVEL_SLOTS;
            if (sends >> at & 1 && !no_slot) visit(at);
        }
}

// Whether a group may send a weight to such a level.
struct Inside {
    using Mask = u64;
    bool has_slot(Mask sends, int order) const { return senders(sends, order) < LEVEL_SLOTS; }
};

// Its weights, group by group.
struct NestedTile {
    u16 weight[TILE_ROWS][NESTED_COLS];

    const u16* group(int g, int order) const { return weight[row_of(g, order)] + 3 * group_of(order); }

    // Of a regular chunk; of an extra one, which has no group with three weights, nothing is sent.
    Stream stream(int g, bool extra) const {
        Writer writer(NESTED);
        u64 sends = extra ? 0 : sends_of(g);
        for (int order = 0; order < NESTED_ORDERS; order++) {
            const u16* w = group(g, order);
            bool middle = w[1] && !(sends >> order & 1);
            int first = w[0] ? 0 : middle ? 1 : 2, last = w[2] ? 2 : middle ? 1 : 0;
            if (first < last) writer.two(order, first, w[first], last, w[last]);
            else if (first == last) writer.one(order, first, w[first]);
            else writer.none(order);
        }
        Stream stream = writer.finish();
        stream.sends = sends;
        for_each_of_level(sends, [&](int order) { stream.push(group(g, order)[1]); });
        if (stream.count % 2) stream.push(0);
        return stream;
    }

  private:
    u64 sends_of(int g) const {
        u64 full = 0;
        for (int order = 0; order < NESTED_ORDERS; order++) {
            const u16* w = group(g, order);
            full |= u64(w[0] && w[1] && w[2]) << order;
        }
        Sender sender(full, Inside());
        for (int order = 0; order < NESTED_ORDERS; order++) {
            const u16* w = group(g, order);
            int present = !!w[0] + !!w[1] + !!w[2];
            if (present == 1) sender.lone(order, w[1]);
            if (present > 1) sender.two(order, present == 2 && w[1]);
        }
        sender.finish();
        return sender.sent;
    }
};

// Where the planes of (step, half) of g stand.
constexpr i64 planes_at(int g, int step, int half) {
    return step < 2 ? 16 * (4 * g + 2 * step + half) : 512 + 16 * (2 * g + half);
}

// Codes of a stream, into the planes of a chunk.
inline void put_planes(u8* chunk, const Stream& stream, i64 m, i64 g) {
    for (int order = 0; order < NESTED_ORDERS; order++) {
        u32 nibble = stream.nibble(order), code = stream.sends >> order & 1 ? sending_code(nibble) : nibble;
        u32 planes[4];
        u8* at = chunk + planes_at(int(g), order / 16, order / 8 % 2);
        memcpy(planes, at, sizeof planes);
        for (int i = 0; i < 4; i++) planes[i] |= (code >> i & 1) << (4 * (order % 8) + m);
        memcpy(at, planes, sizeof planes);
    }
}

}  // namespace lscd::zero_row_24
