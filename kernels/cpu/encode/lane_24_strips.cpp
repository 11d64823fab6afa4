// 2:4 in strips, words for each lane, in two passes (layout: lane_24_strips.h).
#include <algorithm>
#include <vector>

#include "lane_24_strips.h"

using namespace lscd;
using namespace lscd::lane_24;

namespace {

// The weights of a chunk, by groups.
struct Weights : ChunkWeights {
    using ChunkWeights::ChunkWeights;

    const u16* group(i64 lane, i64 order) const {
        return weight[row_of(lane, order)] + column_of(lane, order);
    }
    // Bit i where column i of the group is non-zero.
    u32 columns(i64 lane, i64 order) const {
        i64 col = column_of(lane, order);
        return nonzero[row_of(lane, order)][col / 64] >> col % 64 & 15;
    }
};

// Halves of words that a lane's groups have: bit `order` where the group has the first one, and where
// it has the second. A word begins with a first half.
struct Halves {
    u32 first = 0, second = 0;

    // some, two: groups that have a weight or more, two or more.
    static Halves of(u32 some, u32 two) {
        Halves found{two, two};
        bool open = false;  // whether the word of the group before has room
        i64 step = 0;
        for_each_bit(some, [&](i64 order) {
            u32 group = 1u << order;
            open &= order / ORDERS_OF_STEP == step && !(two & group);
            if (open) found.second |= group;
            else found.first |= group;
            open = !open && !(two & group), step = order / ORDERS_OF_STEP;
        });
        return found;
    }
    u32 of_group(i64 order) const { return (first >> order & 1) | (second >> order & 1) << 1; }
    i64 words(i64 step) const { return __builtin_popcount(first >> ORDERS_OF_STEP * step & 0xffff); }
};

// Which words lanes have, and where these stand.
class Words {
    Halves halves_[LANES];
    u8 bank_[LANES];  // of the words of step 1

    // Lanes with an even g, then others, each by a number, the least first; of equals the lower lane.
    template <class Number>
    static void sort(u8 (&lanes)[LANES], Number number) {
        for (i64 lane = 0; lane < LANES; lane++) lanes[lane] = u8(lane);
        auto key = [&](i64 lane) { return LANES * (LANES * (lane / 4 % 2) + number(lane)) + lane; };
        std::sort(lanes, lanes + LANES, [&](u8 a, u8 b) { return key(a) < key(b); });
    }

  public:
    explicit Words(const Weights& weights) {
        for (i64 lane = 0; lane < LANES; lane++) {
            u32 some = 0, two = 0;
            for (i64 order = 0; order < ORDERS; order++) {
                i64 n = count(weights.columns(lane, order));
                some |= u32(n > 0) << order, two |= u32(n > 1) << order;
            }
            halves_[lane] = Halves::of(some, two);
        }
        u8 above[LANES], below[LANES];
        sort(above, [&](i64 lane) { return words(lane, 0); });
        sort(below, [&](i64 lane) { return ORDERS_OF_STEP - words(lane, 1); });
        for (i64 i = 0; i < LANES; i++) bank_[below[i]] = above[i];
    }
    i64 words(i64 lane, i64 step) const { return halves_[lane].words(step); }
    i64 bank(i64 lane, i64 step) const { return step ? bank_[lane] : lane; }
    const u8 (&banks() const)[LANES] { return bank_; }
    // Calls visit(lane, order, columns, halves, line) for each group with weights.
    template <class Visit>
    void for_each_group(const Weights& weights, Visit visit) const {
        for (i64 lane = 0; lane < LANES; lane++) {
            i64 next = 0;
            for (i64 order = 0; order < ORDERS; order++) {
                if (order == ORDERS_OF_STEP) next = words(bank(lane, 1), 0);
                u32 halves = halves_[lane].of_group(order);
                next += halves & 1;
                if (halves) visit(lane, order, weights.columns(lane, order), halves, next - 1);
            }
        }
    }
};

// As many lines as cost least; of equals the most.
Layout choose(const Weights& weights, const Words& words) {
    i64 values[ORDERS] = {}, entries = 0, most = 0;  // values: of the words of a line
    words.for_each_group(weights, [&](i64, i64, u32 columns, u32, i64 line) {
        i64 n = count(columns), kept = min(n, 2);
        values[line] += kept, entries += n - kept;
        most = std::max(most, line + 1);
    });
    Layout best{most, steps_for(entries)};
    for (i64 lines = most - 1; lines >= 0 && lines >= most - FEWER_LINES; lines--) {
        entries += values[lines];
        Layout layout{lines, steps_for(entries)};
        if (layout.cost() < best.cost()) best = layout;
    }
    return best;
}

// Steps of entries, of which those of fours are in another order.
class Entries {
    Entry entry_[PLACES][ROWS * COLS / PLACES];
    i64 count_[PLACES] = {};

    static void put(u8* chunk, const Layout& layout, i64 position, const Entry& entry) {
        memcpy(chunk + Entry::value_at(layout, position), &entry.value, 2);
        memcpy(chunk + Entry::row_at(layout, position), &entry.row, 2);
        chunk[Entry::column_at(layout, position)] = entry.column;
    }
    // All in their order, and those that are not in use.
    std::vector<Entry> in_steps(const Layout& layout) const {
        std::vector<Entry> found(PLACES * layout.steps, Entry{0, 0, 0});
        i64 near = layout.near(), used[NEAR_STEPS] = {}, last = near - 1, next_far = PLACES * near;
        auto add_to = [&](i64 step, const Entry& entry) { found[PLACES * step + used[step]++] = entry; };
        for_each_in_turn([&](i64 i, const Entry& entry) {
            while (i >= near && last >= 0 && used[last] == PLACES) last--;
            if (i < near) add_to(i, entry);
            else if (last >= 0) add_to(last, entry);
            else found[next_far++] = entry;
        });
        return found;
    }
    // Calls visit(i, entry) for the first ones of the places, then for their second ones, and so on.
    template <class Visit>
    void for_each_in_turn(Visit visit) const {
        i64 turns = *std::max_element(count_, count_ + PLACES);
        for (i64 i = 0; i < turns; i++)
            for (i64 place = 0; place < PLACES; place++)
                if (i64 n = count_[place]; i < n) visit(i, entry_[place][place % 2 ? n - 1 - i : i]);
    }
    // By rows; who is not in use comes last.
    static void sort(Entry* step) {
        Entry sorted[PLACES];
        std::copy(step, step + PLACES, sorted);
        std::stable_sort(sorted, sorted + PLACES,
                         [](const Entry& a, const Entry& b) { return u16(a.row - 1) < u16(b.row - 1); });
        for (i64 n = 0; n < PLACES; n++) step[place_in_four(n)] = sorted[n];
    }

  public:
    void add(u16 value, i64 row, i64 column) {
        i64 place = column % PLACES;
        entry_[place][count_[place]++] = {value, u16(1 << row), u8(column)};
    }
    // Returns how many fours there are.
    i64 put(u8* chunk, const Layout& layout) const {
        std::vector<Entry> steps = in_steps(layout), sorted = steps;
        Entry* in_fours = sorted.data() + PLACES * layout.single();
        for (i64 step = 0; step < FOUR * layout.fours(); step++) sort(in_fours + PLACES * step);
        bool sound = fours_are_sound(in_fours, layout.fours());
        if (sound) steps = sorted;
        auto entry_at = [&](i64 i) { return steps[i]; };
        for (i64 i = 0; i < i64(steps.size()); i++) {
            if (!steps[i].row) steps[i].column = unused_column(entry_at, i / PLACES);
            put(chunk, layout, i, steps[i]);
        }
        if (!sound) return 0;
        for (i64 i = 0; i < WORDS_OF_FOUR * layout.fours(); i++) {
            u32 word = four_metadata(in_fours + FOUR * PLACES * (i / WORDS_OF_FOUR), i % WORDS_OF_FOUR);
            memcpy(chunk + layout.fours_at() + 4 * i, &word, 4);
        }
        return layout.fours();
    }
};

// Indices of groups, and which halves of words they have.
struct Metadata {
    u32 indices[4 * LANES], halves[STEPS][LANES] = {};

    Metadata() { memset(indices, ABSENT | ABSENT << 4, sizeof indices); }
    void set(i64 lane, i64 order, u32 columns, u32 own) {
        u32& word = indices[metadata_word(lane, order)];
        word ^= (nibble_of(columns, own) ^ ABSENT) << metadata_shift(lane, order);
        for_each_bit(own, [&](i64 h) {
            halves[order / ORDERS_OF_STEP][lane] |= 1u << half_shift(order, h);
        });
    }
    void put(u8* chunk) const {
        memcpy(chunk, indices, sizeof indices);
        memcpy(chunk + HALVES, halves, sizeof halves);
    }
};

// Which columns of full groups become entries: how many entries each place has, of lanes with an even and with an
// odd t.
class Leftovers {
    i64 count_[2][GROUP] = {};

  public:
    // All of a group.
    void add(i64 lane, u32 columns) {
        for_each_bit(columns, [&](i64 i) { count_[lane % 2][i]++; });
    }
    u32 of_next(i64 lane, u32 columns) {
        i64(&counts)[GROUP] = count_[lane % 2];
        u32 left = 0;
        for (i64 n = count(columns); n > 2; n--) {
            i64 fewest = -1;
            for_each_bit(columns & ~left, [&](i64 i) {
                if (fewest < 0 || counts[i] < counts[fewest]) fewest = i;
            });
            counts[fewest]++, left |= 1u << fewest;
        }
        return left;
    }
};

// Lines; what they cannot hold goes to entries.
void put_words(u8* chunk, const Weights& weights, const Words& words, const Layout& layout,
               Metadata& metadata, Entries& entries) {
    Leftovers leftovers;
    words.for_each_group(weights, [&](i64 lane, i64, u32 columns, u32, i64 line) {
        if (line >= layout.lines) leftovers.add(lane, columns);
    });
    words.for_each_group(weights, [&](i64 lane, i64 order, u32 columns, u32 halves, i64 line) {
        const u16* group = weights.group(lane, order);
        u32 left = line < layout.lines ? leftovers.of_next(lane, columns) : columns;
        if (u32 kept = columns & ~left) {
            u8* word = chunk + layout.word_at(words.bank(lane, order / ORDERS_OF_STEP), line);
            i64 half = halves == 2;
            for_each_bit(kept, [&](i64 i) { memcpy(word + 2 * half++, group + i, 2); });
            metadata.set(lane, order, kept, halves);
        }
        for_each_bit(left, [&](i64 i) {
            entries.add(group[i], row_of(lane, order), column_of(lane, order) + i);
        });
    });
}

// begin: of the chunk, from the start of data.
void put_chunk(u8* data, i64 begin, const Weights& weights) {
    Words words(weights);
    Layout layout = choose(weights, words);
    u8* chunk = data + begin;
    u32 far_at = layout.far() ? u32((begin + layout.lines_end()) / UNIT) : 0;
    memset(chunk, 0, layout.bytes());
    memcpy(chunk + FAR_AT, &far_at, 4);
    Metadata metadata;
    Entries entries;
    memcpy(chunk + BANKS, words.banks(), LANES);
    put_words(chunk, weights, words, layout, metadata, entries);
    metadata.put(chunk);
    u32 stated = layout.stated(entries.put(chunk, layout));
    memcpy(chunk + LINES_AT, &stated, 4);
}

}  // namespace

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT void lscd_lane_24_strips_size(const u16* dense, i64 M, i64 K, i32* sizes) {
    Grid A{M, K};
#pragma omp parallel for schedule(dynamic, 8) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) {
        Weights weights(dense, A, c);
        sizes[c] = i32(choose(weights, Words(weights)).bytes() / UNIT);
    }
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_lane_24_strips_pack(const u16* dense, i64 M, i64 K, const i32* chunk_start,
                                          u8* data) {
    Grid A{M, K};
#pragma omp parallel for schedule(dynamic, 8) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        put_chunk(data, UNIT * chunk_start[c], Weights(dense, A, c));
}
