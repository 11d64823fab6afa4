// A chunk's weights become streams: metadata, and values in their order.
#pragma once
#include "zero_row_24_tile.cuh"

namespace lscd::zero_row_24 {

// Which of a group's three weights has no slot: always the middle one.
struct Middle {
    __device__ int operator()(int /*order*/, const uint32_t (&)[3]) const { return 1; }
};

// The lane's stream, group by group or six by six: its nibbles go into zeroed metadata, its values to
// put(value), zeros beside lone ones included. Where a group has three weights, leaves(order, weights) is the
// one without a slot; of a six the first and the last one have slots.
template <Kind KIND, class Put, class Leaves>
class Writer {
    static constexpr uint32_t NONE = 3;  // an index: of a slot that is not in use
    Shared<uint32_t> metadata_;
    Put put_;
    Leaves leaves_;
    int m_ = lane_id() / TILE_STREAMS, g_ = lane_id() % TILE_STREAMS;
    int waiting_ = -1;  // where a lone value stands whose word has room
    uint32_t index_ = 0, value_ = 0;

  public:
    __device__ Writer(Shared<uint32_t> metadata, Put put, Leaves leaves)
        : metadata_(metadata), put_(put), leaves_(leaves) {}

    __device__ void write(const Tiles& tiles) { add(tiles, 0), finish(); }
    // What is all of a stream, or of sixes those of a piece, behind the one before.
    __device__ void add(const Tiles& tiles, int piece) {
        constexpr int EACH = KIND == SIXES ? SIXES_OF_PIECE : ORDERS;
        for (int nth = 0; nth < EACH; nth++) {
            int row = m_ * TILE_ROWS + row_of(g_, nth);
            if (KIND == SIXES) six(tiles, row, nth, piece * EACH + nth);
            else group(tiles, row, nth);
        }
    }
    __device__ void finish() {
        if (waiting_ >= 0) place(value_, index_, NONE, 0);
        __syncwarp();
    }

  private:
    __device__ void group(const Tiles& tiles, int row, int order) {
        int col = 3 * group_of(order);
        uint32_t w[3] = {tiles.at(row, col), tiles.at(row, col + 1), tiles.at(row, col + 2)};
        int first = w[0] ? 0 : w[1] ? 1 : 2, last = w[2] ? 2 : w[1] ? 1 : 0;
        if (w[0] && w[1] && w[2]) {
            int away = leaves_(order, w);
            first = away == 0, last = away == 2 ? 1 : 2;
        }
        add_values(order, first, of(w, first), last, of(w, last));
    }
    __device__ void six(const Tiles& tiles, int row, int nth, int order) {
        auto weight = [&](int i) { return tiles.at(row, column_of_six(group_of(nth), i)); };
        int first = 0, last = SIX - 1;
        while (first < SIX && !weight(first)) first++;
        while (last >= 0 && !weight(last)) last--;
        uint32_t low = first < SIX ? weight(first) : 0, high = last >= 0 ? weight(last) : 0;
        add_values(order, first, low, last, high);
    }
    // What a row has from `first` to `last`: two values, one, or, where these cross, none.
    __device__ void add_values(int order, int first, uint32_t low, int last, uint32_t high) {
        uint32_t i = KIND == SIXES ? place_in_six(first) : first, j = KIND == SIXES ? place_in_six(last) : last;
        if (first < last) two(order, i, low, j, high);
        else if (first == last) one(order, i, low);
        else set(order, NONE, NONE);
    }
    __device__ void set(int order, uint32_t slot0, uint32_t slot1) {
        constexpr int STEPS = KIND == SIXES ? 2 : 1;
        for (int step = 0; step < STEPS; step++)
            set_nibble(KIND == SIXES ? nibble_of_six(order, step) : order, nibble_of_step(slot0, slot1, step));
    }
    __device__ void set_nibble(int nth, uint32_t nibble) {
        int word = metadata_word(m_, g_, nth);
        metadata_.store(word, metadata_.load(word) | nibble << 4 * (nth % 8));
    }
    __device__ void place(uint32_t low, uint32_t slot0, uint32_t slot1, uint32_t high) {
        set(waiting_, slot0, slot1);
        put_(low), put_(high);
        waiting_ = -1;
    }
    __device__ void two(int order, uint32_t i, uint32_t a, uint32_t j, uint32_t b) {
        if (waiting_ >= 0) place(0, NONE, index_, value_);
        set(order, i, j);
        put_(a), put_(b);
    }
    __device__ void one(int order, uint32_t i, uint32_t a) {
        if (KIND == PACKED) {
            set(order, i, NONE);
            put_(a);
        } else if (waiting_ >= 0) {
            set(order, NONE, i);
            place(value_, index_, NONE, a);
        } else {
            waiting_ = order, index_ = i, value_ = a;
        }
    }
};

}  // namespace lscd::zero_row_24
