// A code of three bits for each pair of weights, and a stream of words for each lane, in strips of 16 rows. How its
// bytes lie: as banks.h has it, and
//
//   byte 0    codes u32 [32][4]     of a lane: code words 0, 1 and 2 of its first half, 0 of its second one
//        512  codes u32 [32][2]     of a lane: code words 1 and 2 of its second half
//        768  banks u8 [32]         of a lane: where the words of its second half stand; in place of the first word of
//                                   banks 0 to 7, which so begin a line below the others
//        768  lines                 as many as the longest bank needs; zeros where it has no value
//
// A *pair* is a register's two weights, h = 0 and 1: 32 in a half, in the order of w and i. A word holds two values: of
// a pair that has both; or of two pairs that have one weight each and follow each other, but for pairs without any. One
// word in 5.0, 5.5, 6.1 and 6.6 is so half empty at 50, 60, 70 and 80 % zeros.
//
//   code   the register has       which stand in the word's    and that word is
//   0      .  .
//   3      .  b                           second half          the one of the pair before
//   4      a  .                   first half                   the next one
//   5      .  b                   first half                   the next one
//   6      a  b                   first   second half          the next one
//   7      a  .                           second half          the one of the pair before
//
// So of eight codes one PRMT makes what selects the register's first half, and from 4 to 6 a word begins; codes follow
// from which weights are there.
//
//   code words        nibble n % 8 of *eight* n / 8 is the code of pair n. Eights 0, 1 and 2 are the code words, whose
//                     nibbles have a bit to spare: bit 3 of code word k is bit k of eight 3's nibble
//   position          words of a half have two each, one word behind the other
#pragma once
#include "banks.h"

namespace lscd::coded_strips {

using namespace banks;

constexpr i64 PAIRS = 32, EIGHTS = 4, CODE_WORDS = 3;  // of a half of a lane
constexpr u32 CODES = 0x77777777, LOWEST = 0x11111111;  // bits of nibbles

enum Code : u32 { NEITHER = 0, LATER_SECOND = 3, FIRST = 4, SECOND = 5, BOTH = 6, LATER_FIRST = 7 };

constexpr bool begins(u32 code) { return code >= FIRST && code <= BOTH; }
// Of a pair's two places, as bits; NEITHER for 1 and 2, which are no codes.
constexpr u32 places_in(u32 code) {
    return code == BOTH ? 3 : code == FIRST || code == LATER_FIRST ? 1 : code == SECOND || code == LATER_SECOND ? 2 : 0;
}

// The code of each pair in turn.
class Coder {
    bool room_ = false;  // for a value, in the word that was begun last

  public:
    u32 next(u32 places) {
        if (places == 0) return NEITHER;
        bool both = places == 3, later = room_ && !both;
        room_ = !both && !later;
        return both ? BOTH : places == 1 ? (later ? LATER_FIRST : FIRST) : later ? LATER_SECOND : SECOND;
    }
};

struct Layout {
    static constexpr i64 BANKS = 768, LINES = 768, MOST_LINES = 2 * PAIRS + 1;

    static i64 begin(i64 bank) { return bank < LANES / 4 ? 2 : 0; }
    // Calls visit(pair, code).
    template <class Visit>
    static void for_each_code(u64 orders, Visit visit) {
        Coder coder;
        for (i64 pair = 0; pair < PAIRS; pair++) visit(pair, coder.next(orders >> 2 * pair & 3));
    }
    static i64 positions(u64 orders) {
        i64 words = 0;
        for_each_code(orders, [&](i64, u32 code) { words += begins(code); });
        return 2 * words;
    }
    template <class Visit>
    static void for_each(u64 orders, Visit visit) {
        i64 word = -2;
        for_each_code(orders, [&](i64 pair, u32 code) {
            if (begins(code)) word += 2;
            u32 places = places_in(code);
            if (places & 1) visit(2 * pair, word + (code == LATER_FIRST));
            if (places & 2) visit(2 * pair + 1, word + (code == LATER_SECOND || code == BOTH));
        });
    }
    static i64 at(i64 lane, i64 half, i64 word) {
        i64 nth = CODE_WORDS * half + word;  // of the lane
        return nth < 4 ? 16 * lane + 4 * nth : 512 + 8 * lane + 4 * (nth - 4);
    }
    static void put(u8* chunk, i64 lane, i64 half, u64 orders) {
        u32 eights[EIGHTS] = {};
        for_each_code(orders, [&](i64 pair, u32 code) { eights[pair / 8] |= code << 4 * (pair % 8); });
        for (i64 k = 0; k < CODE_WORDS; k++)
            store(chunk + at(lane, half, k), eights[k] | (eights[3] >> k & LOWEST) << 3);
    }
    static u64 orders_of(const u8* chunk, i64 lane, i64 half) {
        u32 eights[EIGHTS] = {};
        for (i64 k = 0; k < CODE_WORDS; k++) {
            u32 word = load<u32>(chunk + at(lane, half, k));
            eights[k] = word & CODES, eights[3] |= (word >> 3 & LOWEST) << k;
        }
        u64 orders = 0;
        for (i64 pair = 0; pair < PAIRS; pair++)
            orders |= u64(places_in(eights[pair / 8] >> 4 * (pair % 8) & 7)) << 2 * pair;
        return orders;
    }
    // Whether the chunk has the codes of these places.
    static bool says(const u8* chunk, i64 lane, i64 half, u64 orders) {
        u8 other[LINES];
        put(other, lane, half, orders);
        for (i64 k = 0; k < CODE_WORDS; k++)
            if (load<u32>(other + at(lane, half, k)) != load<u32>(chunk + at(lane, half, k))) return false;
        return true;
    }
};

}  // namespace lscd::coded_strips
