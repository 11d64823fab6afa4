// 2:4 in strips of 16 rows, words for each lane: a format of the Hopper kernel for 17 columns and
// more, with four columns to a group. How its bytes lie.
//
//   chunk 16x256      a warp's part of wgmma.sp for 64 rows: 64 groups of four columns in a row
//   strip 16 x K      a chunk for each round of 256 columns; whole 64 rows of strips
//
// Lane 4 g + t of the warp has 32 groups of a chunk. Its group `order` 16 step + 4 tile + 2 half +
// r stands in row g + 8 r, and is number 8 (2 tile + step) + 4 half + t there. wgmma.sp multiplies
// two values of a group, chosen by two 2-bit indices (a nibble: index of slot 0 | index of slot 1
// << 2). A lane loads them as a *word*, of which a group has both halves or one:
//
//   a . b .           a b, indices 0 and 2
//   . a . .           a in the first half of a word, or in the second: lone weights share words in pairs,
//                     a first half with the next of the lane's groups that has weights, if that has one
//                     as well and is of the same step; else the second half is +0. Since a slot that is
//                     not in use may choose any row of B', nibbles say which half it is:
//                     first, by column:   0 | 0 << 2   1 | 1 << 2   2 | 2 << 2   3 | 0 << 2
//                     second, by column:  1 | 0 << 2   2 | 1 << 2   3 | 2 << 2   3 | 3 << 2
//   . . . .           neither half: 2 | 0 << 2
//   a b . c           full: two stay, and one becomes an entry, or two where there are four weights:
//                     those whose columns, modulo 8, have fewest entries so far, of equals the left one.
//                     Groups come in the order of lanes, behind those whose words find no line; lanes
//                     with an even t and with an odd one have places of their own
//
//   line              128 bytes, a word in each of 32 banks. Words of a lane's first 16 groups, those of
//                     step 0, stand in bank `lane`, in line 0, line 1, ...; those of the others in a
//                     bank of its own again, `banks[lane]`, below the words that are there: no lane looks
//                     for its own, no two meet in a bank. Who has most words in step 1 stands below who
//                     has fewest in step 0, and so on; of equals the lower lane comes first. So banks
//                     have nearly as many words each, and lines few holes. Lanes with an even g have
//                     banks with an even g, so that one half may read step 0 while the other reads step 1;
//                     whoever reads a chunk takes any other permutation as well
//
// L lines need not hold all words: weights of those that come later become entries, too. An entry
// costs more than a weight of a word, a line costs 128 bytes even for one bank that wants it, and so
// do chunks that fill more than 4096 bytes before their far steps, whose rings leave no room for wide
// blocks; of the number of the longest bank's words and the 13 below it, L is the one of least cost.
//
//   step              eight entries. An entry's place is its column modulo 8. Of near steps the first has the first
//                     entry of each place, the second one their second ones, and so on, so that the columns of a
//                     step meet no bank of B twice; whatever is left of a place finds room in the last step that
//                     has some, or in far steps. Within a place, order is that of lanes, of groups, of columns, or
//                     of an odd place the opposite, so that a step has few entries of one row
//   near, far         the first twelve steps stand in front of lines, the others behind them
//   four              of near steps the last four, eight or twelve, which mma.sp multiplies four at once: of
//                     columns 4 q to 4 q + 3 of its A, those of places 4 h + 0, 2, 1, 3 of step q / 2, where h
//                     is q % 2, a row has one of the first two and one of the last two at most. So the entries
//                     of such a step stand in the order of their rows, and of each other: the nth one is
//                     number 0 1 4 5 2 3 6 7, n and n + 4 have the same half of a nibble. Where one row has
//                     more than four of a step, there are no fours. Three steps become a four with one more;
//                     so do seven and eleven
//
//   byte 0    metadata u32 [32][tile]    lane 4 g + 2 step + half: low 16 bits row g, high 16 row
//                                        g + 8; nibble t of either
//        512  halves u32 [2][32]         of a step, of a lane: byte 2 r + h has a bit 7 - (2 tile + half)
//                                        where that group has half h of a word
//        768  lines_at u16, steps u16    near steps that are in no four | fours << 4 | far steps << 6
//        772  far_at u32                 from the start of `data`, in 16 bytes; 0 without far steps
//        776  banks u8 [32]              of a lane: where its words of step 1 stand
//        808  near steps                 four pairs of entries: value u16 [2], row u16 [2], a bit:
//                                        1 << row of the strip; column u8 [8], of the chunk. Not in
//                                        use, behind the others: 0, 0, the column that the step begins
//                                        with; where it has no entries, that of the first step
//             metadata u32 [four][8]     of a four, of number g: low 16 bits row g, high 16 row g + 8;
//                                        of nibble t bit 0: whether the row has the second of columns
//                                        4 t to 4 t + 3, bit 2: the fourth; bits 1 and 3: of columns
//                                        16 + 4 t to 19 + 4 t. Zeros, where one row has too many entries
//   lines_at  lines, then far steps; what is before either ends with zeros up to whole 128 bytes
//
// So a chunk is a multiple of 128 bytes, and begins at one.
#pragma once
#include "chunk_16x256.h"

namespace lscd::lane_24 {

using namespace chunk_16x256;

constexpr i64 STEPS = 2, ORDERS = 32, ORDERS_OF_STEP = 16, GROUP = 4, PLACES = 8;
constexpr i64 HALVES = 512, LINES_AT = 768, FAR_AT = 772, BANKS = 776, NEAR = 808;  // offsets
constexpr i64 STEP_BYTES = 40, NEAR_STEPS = 12, FEWER_LINES = 13;
constexpr i64 FOUR = 4, FOUR_BYTES = 32, FOURS_AT = 4, FAR_STEPS_AT = 6;
// What the kernel does for a step, for four at once, and for a far one beside that, in bytes loaded in the same time.
constexpr i64 COST_OF_STEP = 256, COST_OF_FOUR = 640, COST_OF_FAR = 768;
// Where no chunk has more bytes than these before its far steps, the kernel multiplies 128 columns at
// once. What that is worth for one chunk.
constexpr i64 WIDE_BYTES = 4096, COST_OF_NARROW = 2048;
constexpr u32 ABSENT = 2 | 0 << 2;  // nibble of a group that has no half of a word

constexpr i64 whole_lines(i64 bytes) { return (bytes + LINE - 1) / LINE * LINE; }

// Of group `order` of a lane: its row of the strip, its first column of the chunk.
constexpr i64 row_of(i64 lane, i64 order) { return lane / 4 + 8 * (order & 1); }
constexpr i64 column_of(i64 lane, i64 order) {
    i64 step = order >> 4, tile = order >> 2 & 3, half = order >> 1 & 1;
    return GROUP * (8 * (2 * tile + step) + 4 * half + lane % 4);
}

// Its nibble: which of the 128 words of metadata, and bits below it.
constexpr i64 metadata_word(i64 lane, i64 order) {
    i64 step = order >> 4, tile = order >> 2 & 3, half = order >> 1 & 1;
    return 4 * (lane / 4 * 4 + 2 * step + half) + tile;
}
constexpr i64 metadata_shift(i64 lane, i64 order) { return 16 * (order & 1) + 4 * (lane % 4); }

// Columns of a group are four bits. How many they are:
constexpr i64 count(u32 columns) { return 0x4332322132212110 >> 4 * columns & 15; }

// Where the bit for its half h of a word, 0 or 1, stands among those of a step; bits of all first halves.
constexpr i64 half_shift(i64 order, i64 h) { return 16 * (order & 1) + 8 * h + 7 - (order >> 1 & 7); }
constexpr u32 FIRST_HALVES = 0x00ff00ff;

// The nibble of one or two columns that have these halves of a word: bit 0 the first, bit 1 the second.
inline u32 nibble_of(u32 columns, u32 halves) {
    u32 first = __builtin_ctz(columns), last = 31 - __builtin_clz(columns);
    if (halves == 3) return first | last << 2;
    if (halves == 1) return first == 3 ? 3 | 0 << 2 : first | first << 2;
    return first == 3 ? 3 | 3 << 2 : (first + 1) | first << 2;
}

// Steps for so many entries: near ones as they are, or one more to fill a four.
inline i64 steps_for(i64 entries) {
    i64 steps = ceil_div(entries, PLACES);
    return steps < NEAR_STEPS && steps % FOUR == FOUR - 1 ? steps + 1 : steps;
}

// Where the parts of a chunk stand.
struct Layout {
    i64 lines, steps;

    i64 near() const { return min(steps, NEAR_STEPS); }
    i64 far() const { return steps - near(); }
    i64 fours() const { return near() / FOUR; }  // that there is room for
    i64 single() const { return near() - FOUR * fours(); }
    i64 fours_at() const { return NEAR + STEP_BYTES * near(); }
    i64 near_end() const { return fours_at() + FOUR_BYTES * fours(); }
    i64 lines_at() const { return LINES_AT + whole_lines(near_end() - LINES_AT); }
    i64 lines_end() const { return lines_at() + LINE * lines; }
    i64 bytes() const { return lines_end() + whole_lines(STEP_BYTES * far()); }
    i64 cost() const {
        i64 narrow = lines_end() > WIDE_BYTES;
        return bytes() + COST_OF_STEP * (single() + far()) + COST_OF_FOUR * fours() +
               COST_OF_FAR * far() + COST_OF_NARROW * narrow;
    }

    // With so many fours.
    u32 stated(i64 fours) const {
        i64 single = near() - FOUR * fours;
        return u32(lines_at() | (single | fours << FOURS_AT | far() << FAR_STEPS_AT) << 16);
    }
    i64 word_at(i64 bank, i64 line) const { return lines_at() + LINE * line + 4 * bank; }
    i64 step_at(i64 step) const {
        return step < NEAR_STEPS ? NEAR + STEP_BYTES * step
                                 : lines_end() + STEP_BYTES * (step - NEAR_STEPS);
    }
};

// The place of a step's nth entry in a four, in the order of their rows.
constexpr i64 place_in_four(i64 n) { return (n & 2) << 1 | (n & 4) >> 1 | (n & 1); }

// A weight that stands in no word.
struct Entry {
    u16 value, row;  // row: a bit; 0: not in use
    u8 column;

    // Where its parts stand: in pairs of places, two values before their two rows; columns last.
    static i64 value_at(const Layout& layout, i64 position) {
        i64 place = position % PLACES;
        return layout.step_at(position / PLACES) + place / 2 * 8 + place % 2 * 2;
    }
    static i64 row_at(const Layout& layout, i64 position) { return value_at(layout, position) + 4; }
    static i64 column_at(const Layout& layout, i64 position) {
        return layout.step_at(position / PLACES) + 4 * PLACES + position % PLACES;
    }
};

// The column of entries of a step that are not in use, of entries by their positions.
template <class EntryAt>
u8 unused_column(EntryAt entry_at, i64 step) {
    Entry first = entry_at(PLACES * step);
    return first.row ? first.column : entry_at(0).column;
}

// --- of fours, whose entries are [four][step][place]

constexpr i64 WORDS_OF_FOUR = FOUR_BYTES / 4;

// Whether a row has one of two entries with the same half of its nibbles.
inline bool fours_are_sound(const Entry* entries, i64 fours) {
    bool sound = true;
    for (i64 i = 0; i < FOUR * PLACES * fours; i++)
        sound &= !(entries[i].row & entries[i ^ 2].row);
    return sound;
}
// Metadata of rows g and g + 8.
inline u32 four_metadata(const Entry* entries, i64 g) {
    u32 word = 0;
    for (i64 step = 0; step < FOUR; step++)
        for (i64 h = 0; h < 2; h++)
            for (i64 i = 0; i < 2; i++) {
                i64 q = 2 * step + h, bit = 4 * (q % 4) + q / 4 + 2 * i;
                u32 row = entries[PLACES * step + 4 * h + 2 + i].row;
                word |= (row >> g & 1) << bit | (row >> (g + 8) & 1) << (bit + 16);
            }
    return word;
}

}  // namespace lscd::lane_24
