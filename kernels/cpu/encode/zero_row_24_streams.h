// The streams of a zero-row 2:4 chunk, seen by those who read it, and what can be wrong with them.
#pragma once
#include "zero_row_24_nested.h"

namespace lscd::zero_row_24 {

constexpr int SIZE = 1, START = 2, OWN = 3, LEAVES = 4, INDEX = 5, OUTSIDE = 6, TWICE = 7;
constexpr int ZERO = 8, GARBAGE = 9;  // OWN: in what stands between starts and streams

struct Streams {
    const u8* bytes;
    i64 size;
    Kind kind;
    i64 pieces = 1;  // side by side

    template <class Word>
    Word load(i64 at) const {
        Word word;
        memcpy(&word, bytes + at, sizeof word);
        return word;
    }
    u16 half(i64 at) const { return load<u16>(at); }
    u16 stated(i64 m, i64 g) const { return half(starts_at(kind) + 2 * (TILES * g + m)); }
    u16 start(i64 m, i64 g) const { return stated(m, g) & 0x3fff; }
    u16 above_start(i64 m, i64 g) const { return stated(m, g) >> 14; }
    int orders() const {
        if (kind == NESTED) return NESTED_ORDERS;
        return kind == SIXES ? int(pieces) * SIXES_OF_PIECE : int(ORDERS);
    }
    int steps() const { return kind == SIXES ? 2 : 1; }
    // Nested: of a group.
    u32 code(i64 m, int g, int order) const {
        i64 at = planes_at(g, order / 16, order / 8 % 2);
        u32 code = 0;
        for (int i = 0; i < 4; i++) code |= (load<u32>(at + 4 * i) >> (4 * (order % 8) + m) & 1) << i;
        return code;
    }
    u64 sends(i64 m, int g) const {
        u64 found = 0;
        for (int order = 0; kind == NESTED && order < NESTED_ORDERS; order++)
            found |= u64(is_sending(code(m, g, order))) << order;
        return found;
    }
    // Of a group, or of a six for a step.
    int nibble(i64 m, i64 g, int order, int step = 0) const {
        i64 lane = 4 * g + order / 8;
        if (kind == NESTED) return int(nibble_of_code(code(m, int(g), order)));
        if (kind == PAIRS) return load<u32>(16 * lane + 4 * m) >> 4 * (order % 8) & 15;
        if (kind == SIXES) {
            i64 at = piece_at(order / SIXES_OF_PIECE), nth = 2 * g + order / 8 % 2;
            u32 steps = load<u32>(at + STEPS_AT + 8 * nth + 4 * (m / 2));
            return of_sixes(load<u32>(at + 16 * nth + 4 * m), steps, m, step) >> 4 * (order % 8) & 15;
        }
        auto stored = [&](i64 word) {
            return load<u32>(code_word(lane, word)) >> code_shift(order % 8) & 15;
        };
        if (m < 3) return NIBBLES[stored(m) & 7];
        return NIBBLES[stored(0) >> 3 | stored(1) >> 3 << 1 | stored(2) >> 3 << 2];
    }

    // The group that a nibble is of: those of a second piece come behind the 16 of the first one.
    int group(int order, int step) const {
        if (kind != SIXES) return group_of(order);
        int piece = order / SIXES_OF_PIECE;
        return piece * int(GROUPS) + group_of(order % SIXES_OF_PIECE + step * SIXES_OF_PIECE);
    }

    // Calls visit(row of the tile, group, index, offset) for each value of a stream; returns the
    // offset after the last one.
    template <class Visit>
    i64 for_each_of_stream(i64 m, int g, Visit visit) const {
        i64 at = start(m, g);
        u64 sends = 0;
        for (int order = 0; order < orders(); order++) {
            if (kind == NESTED) sends |= u64(is_sending(code(m, g, order))) << order;
            bool slot0 = false, slot1 = false;
            for (int step = 0; step < steps(); step++) {
                int code = nibble(m, g, order, step), first = code & 3, second = code >> 2;
                int row = row_of(g, order), group = this->group(order, step);
                slot0 |= first != 3, slot1 |= second != 3;
                if (first != 3) visit(row, group, first, at);
                if (second != 3) visit(row, group, second, kind != PACKED || slot0 ? at + 2 : at);
            }
            at += kind == PACKED ? 2 * slot0 + 2 * slot1 : 4 * slot1;
        }
        for_each_of_level(sends, [&](int order) {
            visit(row_of(g, order), group_of(order), 1, at);
            at += 2;
        });
        return at;
    }
    bool starts_within(i64 first) const {
        bool sound = true;
        for (i64 m = 0; m < TILES; m++)
            for (i64 g = 0; g < TILE_STREAMS; g++) {
                i64 at = start(m, g);
                sound &= first <= at && at <= size - TAIL && at % (kind == PACKED ? 2 : 4) == 0;
            }
        return sound;
    }
    // Two values of a group without ascending indices, which alone PTX promises to select. Nested: groups with less
    // than three weights that send one where two others do, and any that send where there is no level 1.
    bool misplaces(i64 m, int g, bool has_level = true) const {
        bool found = false;
        u64 sends = this->sends(m, g);
        for (int order = 0; sends && order < NESTED_ORDERS; order++) {
            bool crowded = senders(sends, order) > LEVEL_SLOTS;
            found |= (sends >> order & 1) && (!has_level || (crowded && code(m, g, order) != FULL));
        }
        for_each_nibble(m, g, [&](int first, int second) {
            found |= first != 3 && second != 3 && first >= second;
        });
        return found;
    }
    // nnz of the streams: slots in use, and values of level 1.
    i64 count() const {
        i64 found = 0;
        for (i64 m = 0; m < TILES; m++)
            for (int g = 0; g < TILE_STREAMS; g++) {
                for_each_nibble(m, g, [&](int first, int second) { found += (first != 3) + (second != 3); });
                for_each_of_level(sends(m, g), [&](int) { found++; });
            }
        return found;
    }

  private:
    template <class Visit>
    void for_each_nibble(i64 m, i64 g, Visit visit) const {
        for (int order = 0; order < orders(); order++)
            for (int step = 0; step < steps(); step++) {
                int code = nibble(m, g, order, step);
                visit(code & 3, code >> 2);
            }
    }
};

// Of a chunk whose header is sound. Chunk: has for_each_value(m, g, visit), which returns where the
// stream ends, for_each_value(visit), and inside(row, column).
template <class Chunk>
int metadata_problem(const Chunk& chunk) {
    bool leaves = false, index = false, outside = false;
    for (i64 m = 0; m < TILES; m++)
        for (int g = 0; g < TILE_STREAMS; g++) {
            i64 end = chunk.for_each_value(m, g, [](i64, i64, i64) {});
            leaves |= end > chunk.size - TAIL;
            index |= chunk.misplaces(m, g);
        }
    chunk.for_each_value([&](i64 row, i64 col, i64) { outside |= !chunk.inside(row, col); });
    return leaves ? LEAVES : index ? INDEX : outside ? OUTSIDE : 0;
}

// Of a chunk whose metadata are sound; streams stand from `first` on. What is no value must be
// zero: a slot that is not in use may read it, and it must be finite. nonfinite: whether a value
// has all bits of `exponent` set.
template <i64 MOST_BYTES, class Chunk>
int value_problem(const Chunk& chunk, i64 first, u16 exponent, bool& nonfinite) {
    u8 used[MOST_BYTES / 2] = {};
    bool twice = false, zero = false, garbage = false;
    chunk.for_each_value([&](i64, i64, i64 at) {
        u16 value = chunk.half(at);
        twice |= used[at / 2]++ != 0;
        zero |= value == 0;
        nonfinite |= (value & exponent) == exponent;
    });
    for (i64 at = first; at < chunk.size; at += 2)
        garbage |= !used[at / 2] && chunk.half(at) != 0;
    return twice ? TWICE : zero ? ZERO : garbage ? GARBAGE : 0;
}

}  // namespace lscd::zero_row_24
