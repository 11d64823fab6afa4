// What bitmap_strips and coded_strips share: chunks of 16x256 for dense wgmma, of which each lane of a warp has
// its places, and their values one below the other in a bank of shared memory.
//
//   chunk 16x256      a warp's part of wgmma for 64 rows: the A registers of 16 wgmma.m64nNk16
//   strip 16 x K      a chunk for each round of 256 columns; whole 64 rows of strips
//
// Lane 4 g + t of the warp has 128 places of a chunk, 32 in each of four *words*: word w is for columns
// 64 w to 64 w + 63, and so for four wgmma. Those have 16 registers, i = 4 kk + 2 c8 + r, with two
// weights each, h = 0 and 1:
//
//                                                    columns 64 w +
//                       16 kk + 2 t      16 kk + 2 t + 8
//   row g              |  i = 4 kk      |  i = 4 kk + 2  |      h: of a register's two neighbours
//   row g + 8          |  i = 4 kk + 1  |  i = 4 kk + 3  |
//
//   half              of a lane: words 0 and 1, or 2 and 3. A place of it has an `order`, 32 (w % 2) + 2 i + h
//   line              128 bytes, two values in each of 32 banks: position p of a bank is half p % 2 of line p / 2.
//                     The first half of `lane` has bank `lane`; the second one another, `banks[lane]`, right behind
//                     the values that are there. So no lane looks for its own, and no two meet in a bank. Who has
//                     most in its second half (of equals the lower lane) comes behind who has fewest in its first
//                     one (of equals the lower bank), and so on: banks have nearly as many values each, and lines
//                     few holes. Whoever reads a chunk takes any other permutation as well
//
// Which positions values have, and what says so, is a Layout's:
//
//   BANKS, LINES            offsets in a chunk: of u8 banks[32]; of lines, behind them and zeros, or at the same place
//   MOST_LINES              that a chunk can have
//   begin(bank)             the first position of a bank
//   positions(orders)       how many a half of a lane takes, whose bits by order say where it has values
//   for_each(orders, visit) calls visit(order, position of its value, behind those of others)
//   put(chunk, lane, half, orders), orders_of(chunk, lane, half)
//   says(chunk, lane, half, orders), whether the chunk has what `put` writes for these
#pragma once
#include "chunk_16x256.h"

namespace lscd::banks {

using namespace chunk_16x256;

constexpr i64 WORDS = 4, HALVES = 2, ORDERS = 64;  // of a lane; of its half

// Row of the strip, column of the chunk.
constexpr i64 row_of(i64 lane, i64 order) { return lane / 4 + 8 * (order >> 1 & 1); }
constexpr i64 column_of(i64 lane, i64 half, i64 order) {
    return 64 * (2 * half + order / 32) + 8 * (order / 4 % 8) + 2 * (lane % 4) + order % 2;
}

template <class Word>
Word load(const u8* from) {
    Word word;
    memcpy(&word, from, sizeof word);
    return word;
}
template <class Word>
void store(u8* to, Word word) {
    memcpy(to, &word, sizeof word);
}

// Which places have values, and which banks these stand in.
template <class Layout>
struct Places {
    u64 orders[LANES][HALVES];
    u8 banks[LANES];

    i64 positions(i64 lane, i64 half) const { return Layout::positions(orders[lane][half]); }
    i64 bank(i64 lane, i64 half) const { return half ? banks[lane] : lane; }
    // Of its bank, behind the first halves.
    i64 end_of_first(i64 bank) const { return Layout::begin(bank) + positions(bank, 0); }
    // The first one of a lane's half.
    i64 begin(i64 lane, i64 half) const { return half ? end_of_first(banks[lane]) : Layout::begin(lane); }
    i64 values() const {
        i64 n = 0;
        for (auto& halves : orders) n += __builtin_popcountll(halves[0]) + __builtin_popcountll(halves[1]);
        return n;
    }
    i64 lines() const {
        i64 most = 0;  // positions of a bank
        for (i64 lane = 0; lane < LANES; lane++) {
            i64 end = begin(lane, 1) + positions(lane, 1);
            most = end > most ? end : most;
        }
        return ceil_div(most, 2);
    }
    i64 bytes() const { return Layout::LINES + LINE * lines(); }
    // Calls visit(row of the strip, column of the chunk, offset of its value) for each place with one.
    template <class Visit>
    void for_each_value(Visit visit) const {
        for (i64 lane = 0; lane < LANES; lane++)
            for (i64 half = 0; half < HALVES; half++) {
                i64 first = begin(lane, half), in_line = Layout::LINES + 4 * bank(lane, half);
                Layout::for_each(orders[lane][half], [&](i64 order, i64 position) {
                    i64 at = first + position;
                    visit(row_of(lane, order), column_of(lane, half, order), in_line + LINE * (at / 2) + 2 * (at % 2));
                });
            }
    }
};

}  // namespace lscd::banks
