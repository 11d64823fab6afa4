// A chunk's weights become streams: metadata, and values in their order.
#pragma once
#include "zero_row_24_nested.cuh"

namespace lscd::zero_row_24 {

// Which of a group's weights has no slot: of three the middle one, whatever else.
struct Middle {
    __device__ void operator()(int /*order*/, uint32_t (&)[3]) const {}
};
// Nested: that which it sends.
struct Sends {
    uint64_t groups;
    __device__ void operator()(int order, uint32_t (&weights)[3]) const {
        if (groups >> order & 1) weights[1] = 0;
    }
};

// Of a chunk's metadata while they are written; of nested streams these are codes.
__host__ __device__ constexpr int metadata_words(Kind kind) {
    return (kind == NESTED ? 2 : pieces_of(kind)) * METADATA_WORDS;
}

// The lane's stream, group by group or six by six: its nibbles go into zeroed metadata, its values to
// put(value), zeros beside lone ones included. leaves(order, weights) makes a zero of a group's weight that has
// no slot; of three that are left, and of a six, the first and the last one have slots.
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

    __device__ void write(const TilesOf<KIND>& tiles) { add(tiles, 0), finish(); }
    // What is all of a stream, or of sixes those of a piece, behind the one before.
    __device__ void add(const TilesOf<KIND>& tiles, int piece) {
        constexpr int EACH = KIND == SIXES ? SIXES_OF_PIECE : orders_of(KIND);
        for (int nth = 0; nth < EACH; nth++) {
            int row = m_ * TILE_ROWS + row_of(g_, nth);
            if constexpr (KIND == SIXES) six(tiles, row, nth, piece * EACH + nth);
            else group(tiles, row, nth);
        }
    }
    // Behind a nested stream's words stand values of level 1: they are counted from slots 1.
    __device__ void finish() {
        if (waiting_ >= 0 && KIND == NESTED) place(0, NONE, index_, value_);
        if (waiting_ >= 0) place(value_, index_, NONE, 0);
        __syncwarp();
    }

  private:
    __device__ void group(const TilesOf<KIND>& tiles, int row, int order) {
        int col = first_column(KIND, group_of(order));
        uint32_t w[3] = {tiles.at(row, col), tiles.at(row, col + 1), tiles.at(row, col + 2)};
        leaves_(order, w);
        int first = w[0] ? 0 : w[1] ? 1 : 2, last = w[2] ? 2 : w[1] ? 1 : 0;
        add_values(order, first, of(w, first), last, of(w, last));
    }
    __device__ void six(const TilesOf<KIND>& tiles, int row, int nth, int order) {
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
        if constexpr (KIND == NESTED) nibble = leaves_.groups >> nth & 1 ? sending_code(nibble) : nibble;
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

// Of a nested chunk: words, then values of level 1.
template <class Put>
__device__ void write_nested(Shared<uint32_t> metadata, Put put, const TilesOf<NESTED>& tiles, uint64_t sends) {
    Writer<NESTED, Put, Sends>(metadata, put, Sends{sends}).write(tiles);
    int values = 0;
    for_each_of_level(sends, [&](int order) {
        int row = lane_id() / TILE_STREAMS * TILE_ROWS + row_of(lane_id() % TILE_STREAMS, order);
        put(tiles.at(row, first_column(NESTED, group_of(order)) + 1));
        values++;
    });
    if (values % 2) put(0);
    __syncwarp();
}

}  // namespace lscd::zero_row_24
