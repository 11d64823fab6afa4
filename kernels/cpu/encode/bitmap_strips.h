// A bitmap and a stream of values for each lane, in strips of 16 rows. How its bytes lie: as banks.h has it, and
//
//   byte 0    bitmap u32 [32][w]    of a lane: which of its places have values
//        512  banks u8 [32]         of a lane: where the values of its second half stand
//        544  zeros
//        640  lines                 as many as the longest bank needs; zeros where it has no value
//
//   bit               of place (i, h) in a word: 16 (i % 2) + 8 h + 7 - i / 2. Shifted left by i / 2,
//                     it is the highest of byte 2 (i % 2) + h: so PRMT makes masks of registers
//   position          values of a half, in the order of w, i, h, have one behind the other
//
// So a chunk is a multiple of 128 bytes, and begins at one.
#pragma once
#include "banks.h"

namespace lscd::bitmap_strips {

using namespace banks;

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

struct Layout {
    static constexpr i64 BANKS = 512, LINES = 640, MOST_LINES = 64;

    static i64 begin(i64) { return 0; }
    static i64 positions(u64 orders) { return __builtin_popcountll(orders); }
    template <class Visit>
    static void for_each(u64 orders, Visit visit) {
        i64 position = 0;
        for_each_bit(orders, [&](i64 order) { visit(order, position++); });
    }
    static u8* word(u8* chunk, i64 lane, i64 half) { return chunk + 4 * (WORDS * lane + 2 * half); }
    static void put(u8* chunk, i64 lane, i64 half, u64 orders) {
        store(word(chunk, lane, half), word_of_orders(u32(orders)));
        store(word(chunk, lane, half) + 4, word_of_orders(u32(orders >> 32)));
    }
    static u64 orders_of(const u8* chunk, i64 lane, i64 half) {
        const u8* at = word(const_cast<u8*>(chunk), lane, half);
        return orders_of_word(load<u32>(at)) | u64(orders_of_word(load<u32>(at + 4))) << 32;
    }
    static bool says(const u8*, i64, i64, u64) { return true; }  // any bits are a bitmap
};

}  // namespace lscd::bitmap_strips
