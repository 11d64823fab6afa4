// One 16x48 tile of a chunk: its weights, and how they become nibbles of metadata and a stream.
#pragma once
#include "zero_row_24.h"

namespace lscd::zero_row_24 {

constexpr u32 EMPTY = 15;  // nibble of a group without values: both slots have index 3

struct Stream {
    u32 code[4] = {};  // nibble `order`: the metadata words of lanes 4 g to 4 g + 3
    u16 value[2 * ORDERS];
    int count = 0;  // halves, zeros beside lone values included

    u32 nibble(int order) const { return code[order / 8] >> 4 * (order % 8) & 15; }
    void set(int order, u32 nibble) { code[order / 8] |= nibble << 4 * (order % 8); }
    void push(u16 weight) { value[count++] = weight; }
};

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

struct Tile {
    u16 weight[TILE_ROWS][COLS];

    // Tile m of chunk `nth` of block z.
    void load(const Plan& plan, i64 z, i64 nth, i64 m) {
        Block block(plan.grid, z);
        if (nth < block.regular) load_regular(plan, block, nth, m);
        else load_extra(plan, block, plan.queue(z, m), nth - block.regular, m);
    }

    // The values of rows g and g + 8. The middle one of three is left out: it is in a queue.
    Stream stream(int g, bool pairs) const {
        Writer writer(pairs);
        for (int order = 0; order < ORDERS; order++) {
            const u16* w = weight[row_of(g, order)] + 3 * group_of(order);
            int first = w[0] ? 0 : w[1] ? 1 : 2, last = w[2] ? 2 : w[1] ? 1 : 0;
            if (first < last) writer.two(order, first, w[first], last, w[last]);
            else if (first == last) writer.one(order, first, w[first]);
            else writer.none(order);
        }
        return writer.finish();
    }

  private:
    // Weights outside of A are zeros.
    void load_regular(const Plan& plan, const Block& block, i64 nth, i64 m) {
        i64 col = block.col + nth * COLS, cols = min(COLS, block.col + block.cols - col);
        for (i64 r = 0; r < TILE_ROWS; r++) {
            i64 row = block.row + m * TILE_ROWS + r, n = row < plan.grid.M ? cols : 0;
            if (n) memcpy(weight[r], plan.dense + row * plan.grid.K + col, 2 * n);
            memset(weight[r] + n, 0, 2 * (COLS - n));
        }
    }
    void load_extra(const Plan& plan, const Block& block, const Queue& queue, i64 nth, i64 m) {
        memset(weight, 0, sizeof weight);
        const u16* origin = plan.dense + (block.row + m * TILE_ROWS) * plan.grid.K + block.col;
        for (i64 i = 0; i < COLS; i++) {
            i64 at = nth * COLS + i, col = queue.column(at);
            u32 rows = i % 3 == 2 ? queue.rows(at) & ~queue.full(at / 3) : queue.rows(at);
            for_each_bit(rows, [&](i64 r) { weight[r][i] = origin[r * plan.grid.K + col]; });
        }
    }
};

}  // namespace lscd::zero_row_24
