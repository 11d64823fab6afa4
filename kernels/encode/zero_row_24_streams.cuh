// The streams of a zero-row 2:4 chunk on the GPU, seen by those who read it: a warp for a chunk, a
// lane for a stream. What can be wrong with them: see kernels/cpu/encode/zero_row_24_streams.h. It
// is looked for in the same order.
#pragma once
#include "zero_row_24_nested.cuh"

namespace lscd::zero_row_24 {

constexpr int SIZE = 1, START = 2, OWN = 3, LEAVES = 4, INDEX = 5, OUTSIDE = 6, TWICE = 7;
constexpr int ZERO = 8, GARBAGE = 9;  // OWN: in what stands between starts and streams

// Where a chunk's bytes are.
struct Extent {
    const uint8_t* first;
    int size;  // no more than `most` + 1, which no chunk has

    __device__ Extent(const uint8_t* data, const int* chunk_start, int most,
                      int64_t chunk = blockIdx.x) {
        int64_t start = ld_global(chunk_start + chunk);
        int64_t end = ld_global(chunk_start + chunk + 1);
        first = data + START_BYTES * start;
        size = int(min(START_BYTES * (end - start), int64_t(most + 1)));
    }
};

// The lane's stream of a chunk.
template <Kind KIND>
struct Streams {
    static constexpr int STEPS = KIND == SIXES ? 2 : 1;  // that nibbles of a stream's orders are for
    const uint8_t* bytes;
    int size, pieces;  // side by side
    int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;

    __device__ explicit Streams(const Extent& chunk, int pieces = 1)
        : bytes(chunk.first), size(chunk.size), pieces(pieces) {}

    __device__ uint32_t half(int at) const { return load<uint16_t>(at); }
    __device__ uint32_t word(int at) const { return load<uint32_t>(at); }
    __device__ int stated() const { return half(starts_at(KIND) + 2 * (TILES * g + m)); }
    __device__ int start() const { return stated() & 0x3fff; }
    __device__ int above_start() const { return stated() >> 14; }
    __device__ int orders() const { return KIND == SIXES ? pieces * SIXES_OF_PIECE : orders_of(KIND); }
    // Nested: of a group; which groups send a weight.
    __device__ uint32_t nested_code(int order) const {
        uint4 planes = load<uint4>(planes_at(g, order / 8));
        int bit = 4 * (order % 8) + m;
        auto of = [&](uint32_t plane, int i) { return (plane >> bit & 1) << i; };
        return of(planes.x, 0) | of(planes.y, 1) | of(planes.z, 2) | of(planes.w, 3);
    }
    __device__ uint64_t sends() const {
        uint64_t found = 0;
        for (int order = 0; KIND == NESTED && order < orders(); order++)
            found |= uint64_t(is_sending(nested_code(order))) << order;
        return found;
    }
    // Nibble of a group, or of a six for a step.
    __device__ int code(int order, int step = 0) const {
        if (KIND == NESTED) return nibble_of_code(nested_code(order));
        if (KIND == PAIRS) return word(4 * metadata_word(m, g, order)) >> 4 * (order % 8) & 15;
        if (KIND == SIXES) {
            int piece_at = order / SIXES_OF_PIECE * SECOND_PIECE_AT, nth = 2 * g + order / 8 % 2;
            uint32_t others = (word(piece_at + STEPS_AT + 8 * nth + 4 * (m / 2)) >> m % 2 & EVEN) * 3;
            uint32_t nibbles = word(piece_at + 16 * nth + 4 * m) | (step ? ~others : others);
            return nibbles >> 4 * (order % 8) & 15;
        }
        auto stored = [&](int i) {
            return word(4 * code_word(4 * g + order / 8, i)) >> code_shift(order % 8) & 15;
        };
        if (m < 3) return nibble_of(stored(m) & 7);
        return nibble_of(stored(0) >> 3 | stored(1) >> 3 << 1 | stored(2) >> 3 << 2);
    }
    __device__ bool starts_within(int first) const {
        return first <= start() && start() <= size - TAIL && start() % (KIND == PACKED ? 2 : 4) == 0;
    }
    // Two values of a group without ascending indices, which alone PTX promises to select. Nested: groups with less
    // than three weights that send one where two others do, and any that send where there is no level 1.
    __device__ bool misplaces(bool has_level = true) const {
        bool found = false;
        uint64_t sends = this->sends();
        for (int order = 0; sends && order < orders(); order++) {
            bool crowded = senders(sends, order) > LEVEL_SLOTS;
            found |= (sends >> order & 1) && (!has_level || (crowded && nested_code(order) != FULL));
        }
        for_each_nibble([&](int first, int second) { found |= first != 3 && second != 3 && first >= second; });
        return found;
    }
    // The group that a nibble is of: those of a second piece come behind the 16 of the first one.
    __device__ int group(int order, int step) const {
        if (KIND != SIXES) return group_of(order);
        int nth = order % SIXES_OF_PIECE + step * SIXES_OF_PIECE;
        return order / SIXES_OF_PIECE * GROUPS + group_of(nth);
    }
    // Calls visit(row of the tile, group, index, offset) for each value of the lane's stream;
    // returns the offset after the last one.
    template <class Visit>
    __device__ int for_each_of_stream(Visit visit) const {
        int at = start();
        for (int order = 0; order < orders(); order++) {
            bool slot0 = false, slot1 = false;
            for (int step = 0; step < STEPS; step++) {
                int nibble = code(order, step), first = nibble & 3, second = nibble >> 2;
                int row = row_of(g, order), group = this->group(order, step);
                slot0 |= first != 3, slot1 |= second != 3;
                if (first != 3) visit(row, group, first, at);
                if (second != 3) visit(row, group, second, KIND != PACKED || slot0 ? at + 2 : at);
            }
            at += KIND == PACKED ? 2 * slot0 + 2 * slot1 : 4 * slot1;
        }
        for_each_of_level(sends(), [&](int order) {
            visit(row_of(g, order), group_of(order), 1, at);
            at += 2;
        });
        return at;
    }
    // Slots in use in the lane's stream; all lanes' together are nnz of the streams.
    __device__ int count() const {
        int used = 0;
        for_each_of_level(sends(), [&](int) { used++; });
        for_each_nibble([&](int first, int second) { used += (first != 3) + (second != 3); });
        return used;
    }

  private:
    template <class Visit>
    __device__ void for_each_nibble(Visit visit) const {
        for (int order = 0; order < orders(); order++)
            for (int step = 0; step < STEPS; step++) {
                int nibble = code(order, step);
                visit(nibble & 3, nibble >> 2);
            }
    }
    template <class T>
    __device__ T load(int at) const {
        return ld_global(reinterpret_cast<const T*>(bytes + at));
    }
};

// Of three things that a lane may have found, the first that one of them has, for all lanes; or 0.
__device__ inline int first_of(bool a, int if_a, bool b, int if_b, bool c, int if_c) {
    int found = a ? if_a : b ? if_b : c ? if_c : 16;
    return __reduce_min_sync(ALL_LANES, found) % 16;
}

// Of a chunk whose header is sound. Chunk: has for_each_value(visit), which visits the lane's part
// of it and returns where its stream ends, and inside(row, column).
template <class Chunk>
__device__ int metadata_problem(const Chunk& chunk) {
    bool outside = false;
    int end = chunk.for_each_value(
        [&](int64_t row, int64_t column, int) { outside |= !chunk.inside(row, column); });
    return first_of(end > chunk.size - TAIL, LEAVES, chunk.misplaces(), INDEX, outside,
                    OUTSIDE);
}

// Of a chunk whose metadata are sound; streams stand from `first` on. `unused` [halves of the
// largest chunk] in shared memory becomes 0 where a value stands.
template <class Chunk>
__device__ int value_problem(const Chunk& chunk, int first, Shared<int> unused, uint32_t exponent,
                             int* nonfinite) {
    for (int i = lane_id(); i < chunk.size / 2; i += LANES) unused.store(i, 1);
    __syncwarp();
    int values = 0, places = 0;
    bool zero = false, garbage = false, bad = false;
    chunk.for_each_value([&](int64_t, int64_t, int at) {
        values++;
        zero |= chunk.half(at) == 0;
        bad |= (chunk.half(at) & exponent) == exponent;
        unused.store_min(at / 2, 0);
    });
    __syncwarp();
    for (int i = lane_id(); i < chunk.size / 2; i += LANES) {
        places += !unused.load(i);
        garbage |= 2 * i >= first && unused.load(i) && chunk.half(2 * i);
    }
    if (bad) st_global(nonfinite, 1);
    bool twice = __reduce_add_sync(ALL_LANES, values) != __reduce_add_sync(ALL_LANES, places);
    return first_of(twice, TWICE, zero, ZERO, garbage, GARBAGE);
}

}  // namespace lscd::zero_row_24
