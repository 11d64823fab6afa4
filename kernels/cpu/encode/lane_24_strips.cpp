// 2:4 in strips, a word for each lane, in two passes (layout: lane_24_strips.h).
#include "lane_24_strips.h"

using namespace lscd;
using namespace lscd::lane_24;

namespace {

// The weights of a chunk; zeros outside of A.
struct Weights {
    u16 weight[ROWS][COLS];
    u64 nonzero[ROWS][COLS / 64];

    Weights(const u16* dense, const Grid& A, i64 chunk) {
        i64 row = A.row(chunk), col = A.column(chunk), cols = min(COLS, A.K - col);
        for (i64 r = 0; r < ROWS; r++) {
            i64 n = row + r < A.M ? cols : 0;
            if (n) memcpy(weight[r], dense + (row + r) * A.K + col, 2 * n);
            memset(weight[r] + n, 0, 2 * (COLS - n));
            for (i64 i = 0; i < COLS; i += 64) nonzero[r][i / 64] = nonzero_mask(weight[r] + i, 64);
        }
    }
    const u16* group(i64 lane, i64 order) const {
        return weight[row_of(lane, order)] + column_of(lane, order);
    }
    // Bit i where column i of the group is non-zero.
    u32 columns(i64 lane, i64 order) const {
        i64 col = column_of(lane, order);
        return nonzero[row_of(lane, order)][col / 64] >> col % 64 & 15;
    }
};

// As many lines as cost least; of equals the most.
Layout choose(const Weights& weights) {
    i64 values[ORDERS] = {}, entries = 0, most = 0;  // values: of the nth words of all lanes
    for (i64 lane = 0; lane < LANES; lane++) {
        i64 words = 0;
        for (i64 order = 0; order < ORDERS; order++)
            if (i64 n = count(weights.columns(lane, order))) {
                values[words++] += min(n, 2);
                entries += n - min(n, 2);
            }
        if (words > most) most = words;
    }
    Layout best{most, ceil_div(entries, PLACES)};
    for (i64 lines = most - 1; lines >= 0 && lines >= most - FEWER_LINES; lines--) {
        entries += values[lines];
        Layout layout{lines, ceil_div(entries, PLACES)};
        if (layout.cost() < best.cost()) best = layout;
    }
    return best;
}

class Entries {
    Entry entry_[PLACES][ROWS * COLS / PLACES];
    i64 count_[PLACES] = {}, total_ = 0;

    static void put(u8* chunk, i64 at, const Entry& entry) {
        memcpy(chunk + at, &entry.value, 2);
        memcpy(chunk + at + 2 * PLACES, &entry.row, 2);
        memcpy(chunk + at + 4 * PLACES, &entry.column, 2);
    }

  public:
    void add(u16 value, i64 row, i64 column) {
        i64 place = column % PLACES;
        entry_[place][count_[place]++] = {value, u16(1 << row), u16(column)};
        total_++;
    }
    void put(u8* chunk, const Layout& layout) const {
        i64 position = 0;
        u16 first = 0;  // column of the step's first entry
        auto next = [&](const Entry& entry) {
            if (position % PLACES == 0) first = entry.column;
            put(chunk, Entry::at(layout, position++), entry);
        };
        for (i64 i = 0; position < total_; i++)
            for (i64 place = 0; place < PLACES; place++)
                if (i < count_[place]) next(entry_[place][i]);
        while (position % PLACES) next({0, 0, first});
    }
};

// Which groups have a word, and its indices.
struct Metadata {
    u32 indices[4 * LANES], present[LANES] = {};

    Metadata() { memset(indices, ABSENT | ABSENT << 4, sizeof indices); }
    void set(i64 lane, i64 order, u32 nibble) {
        u32& word = indices[metadata_word(lane, order)];
        word ^= (nibble ^ ABSENT) << metadata_shift(lane, order);
        present[lane] |= 1u << order;
    }
    void put(u8* chunk) const {
        memcpy(chunk, indices, sizeof indices);
        memcpy(chunk + PRESENT, present, sizeof present);
    }
};

// Lines; what they cannot hold goes to entries.
void put_words(u8* chunk, const Weights& weights, const Layout& layout, Metadata& metadata,
               Entries& entries) {
    i64 full[2] = {};  // groups so far, of lanes with an even and with an odd t
    for (i64 lane = 0; lane < LANES; lane++) {
        i64 words = 0;
        for (i64 order = 0; order < ORDERS; order++) {
            const u16* group = weights.group(lane, order);
            u32 columns = weights.columns(lane, order);
            u32 left = left_out(columns, full[lane % 2]);
            full[lane % 2] += left != 0;
            if (words >= layout.lines) left = columns;
            if (u32 kept = columns & ~left) {
                u32 nibble = nibble_of(kept);
                u16 word[] = {group[nibble & 3], group[nibble >> 2]};
                memcpy(chunk + layout.word_at(lane, words++), word, sizeof word);
                metadata.set(lane, order, nibble);
            }
            for_each_bit(left, [&](i64 i) {
                entries.add(group[i], row_of(lane, order), column_of(lane, order) + i);
            });
        }
    }
}

// begin: of the chunk, from the start of data.
void put_chunk(u8* data, i64 begin, const Weights& weights) {
    Layout layout = choose(weights);
    u8* chunk = data + begin;
    u32 stated = u32(layout.lines_at() | layout.steps << 16);
    u32 far_at = layout.far() ? u32((begin + layout.lines_end()) / UNIT) : 0;
    memset(chunk, 0, layout.bytes());
    memcpy(chunk + LINES_AT, &stated, 4);
    memcpy(chunk + FAR_AT, &far_at, 4);
    Metadata metadata;
    Entries entries;
    put_words(chunk, weights, layout, metadata, entries);
    metadata.put(chunk);
    entries.put(chunk, layout);
}

}  // namespace

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT void lscd_lane_24_strips_size(const u16* dense, i64 M, i64 K, i32* sizes) {
    Grid A{M, K};
#pragma omp parallel for schedule(dynamic, 8) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        sizes[c] = i32(choose(Weights(dense, A, c)).bytes() / UNIT);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_lane_24_strips_pack(const u16* dense, i64 M, i64 K, const i32* chunk_start,
                                          u8* data) {
    Grid A{M, K};
#pragma omp parallel for schedule(dynamic, 8) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        put_chunk(data, UNIT * chunk_start[c], Weights(dense, A, c));
}
