// A bitmap and a stream of values for each lane, in strips of 16 rows. How its bytes lie.
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
//   bit               of place (i, h) in a word: 16 (i % 2) + 8 h + 7 - i / 2. Shifted left by i / 2,
//                     it is the highest of byte 2 (i % 2) + h: so PRMT makes masks of registers
//   half              of a lane: words 0 and 1, or 2 and 3. Its values, in the order of w, i, h,
//                     stand one behind another in a bank
//   line              128 bytes, two values in each of 32 banks: of a bank, value p stands in half p % 2
//                     of line p / 2. The first half of `lane` begins bank `lane`; the second one is in a
//                     bank of its own again, `banks[lane]`, right behind the values that are there. So
//                     no lane looks for its own, and no two meet in a bank. Who has most in its second
//                     half (of equals the lower lane) comes behind who has fewest in its first one (of
//                     equals the lower bank), and so on: banks have nearly as many values each, and
//                     lines few holes. Whoever reads a chunk takes any other permutation as well
//
//   byte 0    bitmap u32 [32][w]    of a lane
//        512  banks u8 [32]         of a lane: where the values of its second half stand
//        544  zeros
//        640  lines                 as many as the longest bank needs; zeros where it has no value
//
// So a chunk is a multiple of 128 bytes, and begins at one.
#pragma once
#include "chunk_16x256.h"

namespace lscd::bitmap_strips {

using namespace chunk_16x256;

constexpr i64 WORDS = 4, HALVES = 2, ORDERS = 64;                     // of a lane; of its half
constexpr i64 BANKS = 512, ZEROS = 544, LINES = 640, MOST_LINES = 64;  // offsets; lines

// A place of a lane's half has an `order`, 32 (w % 2) + 2 i + h: its row of the strip, its column of the
// chunk.
constexpr i64 row_of(i64 lane, i64 order) { return lane / 4 + 8 * (order >> 1 & 1); }
constexpr i64 column_of(i64 lane, i64 half, i64 order) {
    return 64 * (2 * half + order / 32) + 8 * (order / 4 % 8) + 2 * (lane % 4) + order % 2;
}

// Where value `position` of a bank stands.
constexpr i64 value_at(i64 bank, i64 position) {
    return LINES + LINE * (position / 2) + 4 * bank + 2 * (position % 2);
}

// A word of the bitmap, and its bits by order. Four orders in a row, of i / 2, are one bit of each byte;
// products gather and spread these.
inline u32 orders_of_word(u32 word) {
    u32 orders = 0;
    for (i64 i = 0; i < 8; i++)
        orders |= (word >> (7 - i) & 0x01010101) * 0x10204080 >> 28 << 4 * i;
    return orders;
}
inline u32 word_of_orders(u32 orders) {
    u32 word = 0;
    for (i64 i = 0; i < 8; i++)
        word |= ((orders >> 4 * i & 15) * 0x00204081 & 0x01010101) << (7 - i);
    return word;
}

// Which places have values, and which banks these stand in.
struct Places {
    u64 orders[LANES][HALVES];
    u8 banks[LANES];

    i64 count(i64 lane, i64 half) const { return __builtin_popcountll(orders[lane][half]); }
    i64 bank(i64 lane, i64 half) const { return half ? banks[lane] : lane; }
    // Values in its bank before those of a lane's half.
    i64 before(i64 lane, i64 half) const { return half ? count(banks[lane], 0) : 0; }
    i64 values() const {
        i64 n = 0;
        for (i64 lane = 0; lane < LANES; lane++) n += count(lane, 0) + count(lane, 1);
        return n;
    }
    i64 lines() const {
        i64 most = 0;  // values of a bank
        for (i64 lane = 0; lane < LANES; lane++) {
            i64 n = before(lane, 1) + count(lane, 1);
            most = n > most ? n : most;
        }
        return ceil_div(most, 2);
    }
    // Calls visit(row of the strip, column of the chunk, offset of its value) for each place with one.
    template <class Visit>
    void for_each_value(Visit visit) const {
        for (i64 lane = 0; lane < LANES; lane++)
            for (i64 half = 0; half < HALVES; half++) {
                i64 position = before(lane, half);
                for_each_bit(orders[lane][half], [&](i64 order) {
                    i64 at = value_at(bank(lane, half), position++);
                    visit(row_of(lane, order), column_of(lane, half, order), at);
                });
            }
    }
};

}  // namespace lscd::bitmap_strips
