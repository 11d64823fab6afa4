// Which middle weights go to level 1 from streams of pairs.
//
// Those of groups with three weights must. Others may, since every group has its column there, and so
// spare a zero: in a stream of words, a lone value needs a partner before two values follow.
//
//   lone values in a row     odd, and then two values, or the end: a word has a zero
//   two, one of them middle  before or behind them: sent, it leaves a lone value, the partner that was missing
//   a lone value, middle     sent: one less, so they are even
//
// Three groups side by side are a group of level 1, which has two slots: no third one is sent there, unless it
// must. Groups whose three are not all in the tile send only what they must.
#pragma once
#include "zero_row_24_tile.h"

namespace lscd::zero_row_24 {

// Of a position in a stream: low bits for the groups of row g, high ones for those of row g + 8.
constexpr int sent_bit(int row, int group) { return row / TILE_STREAMS * int(GROUPS) + group; }

// Where level 1 stands beside regular chunks. `phase`: the place in its three of the tile's first group.
struct Beside {
    using Mask = u32;
    int phase;

    bool has_slot(Mask sent, int bit) const {
        int group = bit % int(GROUPS), first = group - (group + phase) % 3;
        if (first < 0 || first + 3 > GROUPS) return false;
        return __builtin_popcount(sent >> (bit - group + first) & 7) < 2;
    }
};

// A stream's, group by group, in its order. Level: whether a group may send, whose bit in Mask is asked for.
template <class Level>
class Sender {
    using Mask = typename Level::Mask;

  public:
    Mask sent;

    Sender(Mask full, Level level) : sent(full), level_(level) {}
    void lone(int bit, bool middle) {
        if (spare_ < 0 && middle && has_slot(bit)) spare_ = bit;
        waiting_ = !waiting_;
    }
    void two(int bit, bool middle) {
        if (waiting_ && middle && has_slot(bit)) {
            sent |= Mask(1) << bit, waiting_ = false;
            return;
        }
        finish();
        waiting_ = false, spare_ = middle && has_slot(bit) ? bit : -1;
    }
    void finish() {
        if (waiting_ && spare_ >= 0 && has_slot(spare_)) sent |= Mask(1) << spare_;
    }

  private:
    bool has_slot(int bit) const { return level_.has_slot(sent, bit); }
    Level level_;
    int spare_ = -1;  // a middle weight that makes lone ones even: one of them, or of two values before
    bool waiting_ = false;    // a lone value for a partner
};

inline u32 sent_of(const Tile& tile, int g, int phase) {
    auto weights = [&](int order) { return tile.weight[row_of(g, order)] + 3 * group_of(order); };
    u32 full = 0;
    for (int order = 0; order < ORDERS; order++) {
        const u16* w = weights(order);
        full |= u32(w[0] && w[1] && w[2]) << sent_bit(row_of(g, order), group_of(order));
    }
    Sender sender(full, Beside{phase});
    for (int order = 0; order < ORDERS; order++) {
        const u16* w = weights(order);
        int bit = sent_bit(row_of(g, order), group_of(order)), present = !!w[0] + !!w[1] + !!w[2];
        if (present == 1) sender.lone(bit, w[1]);
        if (present > 1) sender.two(bit, present == 2 && w[1]);
    }
    sender.finish();
    return sender.sent;
}

// A word for each stream of each regular chunk.
struct Sent {
    u32* words;

    u32& of(i64 chunk, i64 stream) const { return words[chunk * STREAMS + stream]; }
    // Whether row r of tile m sends the middle weight of a group.
    bool from(i64 chunk, i64 m, i64 r, i64 group) const {
        return of(chunk, m * TILE_STREAMS + r % TILE_STREAMS) >> sent_bit(int(r), int(group)) & 1;
    }
    // Finds out what tile m sends; takes it from there.
    void find(const Tile& tile, i64 chunk, i64 m, int phase) const {
        for (i64 g = 0; g < TILE_STREAMS; g++) of(chunk, m * TILE_STREAMS + g) = sent_of(tile, int(g), phase);
    }
    void take(Tile& tile, i64 chunk, i64 m) const {
        for (i64 r = 0; r < TILE_ROWS; r++)
            for (i64 group = 0; group < GROUPS; group++)
                if (from(chunk, m, r, group)) tile.weight[r][3 * group + 1] = 0;
    }
};

}  // namespace lscd::zero_row_24
