// Tiled-CSL (Flash-LLM, section 4.3): each 128x64 tile as words of location and value.
//
//   word   31 .. 16  location = row * 64 + (column ^ 8 * (row mod 8)): where the weight goes in the
//                    swizzled tile in shared memory; (location / 2) mod 32 is its bank there
//          15 ..  0  value
//
// A tile's words are padded to a multiple of 4, a vector, with words of value 0. Without reordering
// they follow the tile's rows. With it, a warp that loads one vector per lane and stores its four
// words in four steps meets as few equal banks per step as the tile allows: each step of 32 words
// takes from the fullest banks.
//
//   round r, 32 vectors:  [lane 0: step 0 1 2 3][lane 1: step 0 1 2 3] .. [lane 31: ..]
//   then the tail, fewer than 32 vectors in the same way; it is filled first.
#include <algorithm>

#include "scan.h"

using namespace lscd;

namespace {

constexpr i64 ROWS = 128, COLS = 64, PLACES = ROWS * COLS, VECTOR = 4, LANES = 32;
constexpr i64 BANKS = 32, BANK_PLACES = PLACES / BANKS;

inline i64 location_of(i64 row, i64 col) { return row * COLS + (col ^ 8 * (row % 8)); }
inline i64 row_of(i64 location) { return location / COLS; }
inline i64 col_of(i64 location) { return (location % COLS) ^ 8 * (row_of(location) % 8); }
inline i64 bank_of(i64 location) { return location / 2 % BANKS; }
inline i64 tiles_of(i64 M, i64 K) { return ceil_div(M, ROWS) * ceil_div(K, COLS); }

// Where a tile lies in a [M, K] matrix, and how much of it does.
struct Frame {
    i64 row, col, rows, cols;
    Frame(i64 M, i64 K, i64 t)
        : row(t / ceil_div(K, COLS) * ROWS), col(t % ceil_div(K, COLS) * COLS),
          rows(min(ROWS, M - row)), cols(min(COLS, K - col)) {}
};

// The non-zeros of one tile.
struct Tile {
    u64 used[ROWS] = {};  // by row: mask of the columns that have a word
    const u16* origin;
    i64 stride, count = 0;

    Tile(const u16* dense, i64 M, i64 K, i64 t) : stride(K) {
        Frame at(M, K, t);
        origin = dense + at.row * K + at.col;
        for (i64 r = 0; r < at.rows; r++) {
            used[r] = nonzero_mask(origin + r * K, at.cols);
            count += __builtin_popcountll(used[r]);
        }
    }

    // Calls visit(location, word), row by row.
    template <class Visit>
    void for_each_word(Visit visit) const {
        for (i64 r = 0; r < ROWS; r++)
            for_each_bit(used[r], [&](i64 c) {
                i64 location = location_of(r, c);
                visit(location, u32(location << 16) | origin[r * stride + c]);
            });
    }

    // First location of a bank that has no word yet; it has one from now on.
    i64 take_free(i64 bank) {
        for (i64 place = 0;; place++) {
            i64 location = place / 2 * COLS + 2 * bank + place % 2;
            u64 bit = u64(1) << col_of(location);
            if (used[row_of(location)] & bit) continue;
            used[row_of(location)] |= bit;
            return location;
        }
    }

    // Calls visit(location, word) for the words of value 0 that fill up the last vector. Each goes
    // to the bank with the fewest words (ties: the lowest) by `in_bank`, which `visit` keeps up.
    template <class Visit>
    void pad(const i32* in_bank, Visit visit) {
        for (; count % VECTOR; count++) {
            i64 bank = std::min_element(in_bank, in_bank + BANKS) - in_bank;
            i64 location = take_free(bank);
            visit(location, u32(location << 16));
        }
    }
};

// The words of a tile by bank, and a way to take them out again: always the last word of the
// fullest bank (ties: the lowest). Banks with `level` words left are the fullest ones; taking one
// word from each, in order, leaves them among those with level - 1.
class Banks {
  public:
    void push(i64 location, u32 word) {
        i64 bank = bank_of(location);
        words_[bank][in_bank[bank]++] = word;
    }
    void start_taking() {
        memset(with_level_, 0, sizeof with_level_);
        for (i64 bank = 0; bank < BANKS; bank++) with_level_[in_bank[bank]] |= u32(1) << bank;
        level_ = BANK_PLACES + 1, fullest_ = waiting_ = 0;
    }
    u32 take() {
        while (!waiting_) waiting_ = fullest_ |= with_level_[--level_];
        i64 bank = __builtin_ctz(waiting_);
        waiting_ &= waiting_ - 1;
        return words_[bank][level_ - 1];
    }
    i32 in_bank[BANKS] = {};

  private:
    u32 words_[BANKS][BANK_PLACES], with_level_[BANK_PLACES + 1];
    u32 fullest_, waiting_;  // masks of banks: at this level, and not yet taken from at it
    i64 level_;
};

void fill_vectors(Banks& banks, i64 vectors, u32* out) {
    for (i64 step = 0; step < VECTOR; step++)
        for (i64 lane = 0; lane < vectors; lane++) out[VECTOR * lane + step] = banks.take();
}

void pack_reordered(Tile& tile, u32* out) {
    Banks banks;
    auto push = [&](i64 location, u32 word) { banks.push(location, word); };
    tile.for_each_word(push);
    tile.pad(banks.in_bank, push);
    banks.start_taking();
    i64 vectors = tile.count / VECTOR, rounds = vectors / LANES;
    fill_vectors(banks, vectors % LANES, out + rounds * LANES * VECTOR);
    for (i64 r = 0; r < rounds; r++) fill_vectors(banks, LANES, out + r * LANES * VECTOR);
}

void pack_in_order(Tile& tile, u32* out) {
    i32 in_bank[BANKS] = {};
    auto append = [&](i64 location, u32 word) {
        in_bank[bank_of(location)]++;
        *out++ = word;
    };
    tile.for_each_word(append);
    tile.pad(in_bank, append);
}

}  // namespace

// vectors [tiles]: words of each tile, padded, in vectors; pass one.
LSCD_EXPORT void lscd_tiled_csl_count(const u16* dense, i64 M, i64 K, i32* vectors) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 t = 0; t < tiles_of(M, K); t++)
        vectors[t] = i32(ceil_div(Tile(dense, M, K, t).count, VECTOR));
}

// words [4 * tile_offsets[tiles]]: pass two.
LSCD_EXPORT void lscd_tiled_csl_pack(const u16* dense, i64 M, i64 K, const i32* tile_offsets,
                                     i64 reorder, u32* words) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 t = 0; t < tiles_of(M, K); t++) {
        Tile tile(dense, M, K, t);
        (reorder ? pack_reordered : pack_in_order)(tile, words + VECTOR * tile_offsets[t]);
    }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_tiled_csl_unpack(const i32* tile_offsets, const u32* words, i64 M, i64 K,
                                       u16* dense) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 t = 0; t < tiles_of(M, K); t++) {
        Frame at(M, K, t);
        u16* origin = dense + at.row * K + at.col;
        for (i64 i = VECTOR * tile_offsets[t]; i < VECTOR * tile_offsets[t + 1]; i++)
            if (u16 value = u16(words[i])) {
                i64 location = words[i] >> 16;
                origin[row_of(location) * K + col_of(location)] = value;
            }
    }
}

// Problem by tile: 1 tile_offsets, 2 a location out of the tile, 3 a location twice, 4 a non-zero
// outside of the matrix, 5 more words of value 0 than fill up a vector.
LSCD_EXPORT void lscd_tiled_csl_check(const i32* tile_offsets, const u32* words, i64 M, i64 K,
                                      i64 vectors, i64* found) {
    first_problem(tiles_of(M, K), M * K, found, [=](i64 t) {
        i64 start = tile_offsets[t], end = tile_offsets[t + 1], zeros = 0;
        if (start < 0 || end < start || end > vectors) return 1;
        Frame at(M, K, t);
        u64 seen[ROWS] = {};
        for (i64 i = VECTOR * start; i < VECTOR * end; i++) {
            i64 location = words[i] >> 16;
            if (location >= PLACES) return 2;
            i64 row = row_of(location), col = col_of(location);
            if (seen[row] >> col & 1) return 3;
            seen[row] |= u64(1) << col;
            bool zero = u16(words[i]) == 0;
            if (!zero && (row >= at.rows || col >= at.cols)) return 4;
            zeros += zero;
        }
        return zeros < VECTOR ? 0 : 5;
    });
}
