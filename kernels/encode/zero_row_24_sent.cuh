// Which middle weights go to level 1 from streams of pairs: see kernels/cpu/encode/zero_row_24_sent.h; from nested
// ones: zero_row_24_nested.h there.
#pragma once
#include "zero_row_24_nested.cuh"

namespace lscd::zero_row_24 {

// Of a position in a stream: low bits for the groups of row g, high ones for those of row g + 8.
__device__ inline int sent_bit(int row, int group) { return row / TILE_STREAMS * GROUPS + group; }

// Three groups side by side are a group of level 1, which has two slots; `phase`: the place in it of the tile's first
// group.
struct Beside {
    using Mask = uint32_t;
    static constexpr Kind KIND = PAIRS;
    int phase;

    __device__ static int bit(int order) { return sent_bit(row_of(0, order), group_of(order)); }
    __device__ bool has_slot(Mask sent, int bit) const {
        int group = bit % GROUPS, first = group - (group + phase) % 3;
        if (first < 0 || first + 3 > GROUPS) return false;
        return __popc(sent >> (bit - group + first) & 7) < 2;
    }
};
// Groups of three steps are one of level 1, which has two slots, too; bits as the stream has groups.
struct Inside {
    using Mask = uint64_t;
    static constexpr Kind KIND = NESTED;

    __device__ static int bit(int order) { return order; }
    __device__ bool has_slot(Mask sent, int bit) const { return senders(sent, bit) < LEVEL_SLOTS; }
};

// The lane's stream, group by group, in its order.
template <class Level>
class Sender {
    using Mask = typename Level::Mask;
    Level level_;
    int spare_ = -1;        // a middle weight that makes lone ones even: one of them, or of two values before
    bool waiting_ = false;  // a lone value for a partner

  public:
    Mask sent;

    __device__ Sender(Mask full, Level level) : level_(level), sent(full) {}
    __device__ void lone(int bit, bool middle) {
        if (spare_ < 0 && middle && has_slot(bit)) spare_ = bit;
        waiting_ = !waiting_;
    }
    __device__ void two(int bit, bool middle) {
        if (waiting_ && middle && has_slot(bit)) {
            sent |= Mask(1) << bit, waiting_ = false;
            return;
        }
        finish();
        waiting_ = false, spare_ = middle && has_slot(bit) ? bit : -1;
    }
    __device__ void finish() {
        if (waiting_ && spare_ >= 0 && has_slot(spare_)) sent |= Mask(1) << spare_;
    }

  private:
    __device__ bool has_slot(int bit) const { return level_.has_slot(sent, bit); }
};

template <class Level>
__device__ typename Level::Mask sent_of(const TilesOf<Level::KIND>& tiles, Level level) {
    using Mask = typename Level::Mask;
    constexpr int EACH = orders_of(Level::KIND);
    int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
    Mask present[3] = {};  // weights of groups
    for (int order = 0; order < EACH; order++) {
        int row = m * TILE_ROWS + row_of(g, order), col = first_column(Level::KIND, group_of(order));
#pragma unroll
        for (int i = 0; i < 3; i++) present[i] |= Mask(tiles.at(row, col + i) != 0) << Level::bit(order);
    }
    Sender<Level> sender(present[0] & present[1] & present[2], level);
    for (int order = 0; order < EACH; order++) {
        int bit = Level::bit(order), count = 0;
#pragma unroll
        for (int i = 0; i < 3; i++) count += present[i] >> bit & 1;
        bool middle = count < 3 && present[1] >> bit & 1;
        if (count == 1) sender.lone(bit, middle);
        if (count > 1) sender.two(bit, middle);
    }
    sender.finish();
    return sender.sent;
}

// A word for each stream of each regular chunk.
struct Sent {
    uint32_t* words;

    // Finds out what the lane's stream of a chunk sends.
    __device__ void find(const Tiles& tiles, int64_t chunk, int phase) const {
        st_global(words + chunk * LANES + lane_id(), sent_of(tiles, Beside{phase}));
    }
    // Takes it from there.
    __device__ void take(const Tiles& tiles, int64_t chunk) const {
        uint32_t mine = ld_global(words + chunk * LANES + lane_id());
        int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
#pragma unroll
        for (int bit = 0; bit < ORDERS; bit++)
            if (mine >> bit & 1) tiles.put(m * TILE_ROWS + bit / GROUPS * TILE_STREAMS + g, bit % GROUPS * 3 + 1, 0);
        __syncwarp();
    }
    // Whether row r of tile m sends the middle weight of a group.
    __device__ bool from(int64_t chunk, int m, int r, int group) const {
        uint32_t word = ld_global(words + chunk * LANES + m * TILE_STREAMS + r % TILE_STREAMS);
        return word >> sent_bit(r, group) & 1;
    }
};

}  // namespace lscd::zero_row_24
