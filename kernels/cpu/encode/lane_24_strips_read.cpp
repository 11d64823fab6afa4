// 2:4 in strips, words for each lane, the way back: decoding, counting, and what can be wrong with
// a chunk (layout: lane_24_strips.h).
#include "lane_24_strips.h"
#include "unpack.h"

using namespace lscd;
using namespace lscd::lane_24;

namespace {

constexpr int SIZE = 1, BANK = 2, HALF = 3, WORDS = 4, ENTRY = 5, INDEX = 6;
constexpr int OUTSIDE = 7, ZERO = 8, GARBAGE = 9;

// The bytes of a chunk, read. All but `size` and what is stated in its header is only for those whose
// size is sound.
struct Bytes : ChunkBytes {
    Layout layout{0, 0};
    i64 fours = 0;

    Bytes(const u8* data, const i32* chunk_start, i64 chunk) : ChunkBytes(data, chunk_start, chunk) {
        if (size <= NEAR) return;
        i64 steps = load<u32>(LINES_AT) >> 16;
        fours = steps >> FOURS_AT & 3;
        layout.steps = (steps & 15) + FOUR * fours + (steps >> FAR_STEPS_AT);
        layout.lines = (size - layout.bytes()) / LINE;
    }
    u32 halves(i64 lane, i64 step) const { return load<u32>(HALVES + 4 * (LANES * step + lane)); }
    // Bit 0: whether the group has the first half of a word; bit 1: the second one.
    u32 halves_of(i64 lane, i64 order) const {
        u32 stored = halves(lane, order / ORDERS_OF_STEP);
        return (stored >> half_shift(order, 0) & 1) | (stored >> half_shift(order, 1) & 1) << 1;
    }
    i64 words(i64 lane, i64 step) const { return __builtin_popcount(halves(lane, step) & FIRST_HALVES); }
    i64 bank(i64 lane, i64 step) const { return step ? bytes[BANKS + lane] : lane; }
    // Words in a bank, above those that `lane` has of a step.
    i64 above(i64 lane, i64 step) const { return step ? words(bank(lane, 1), 0) : 0; }
    u32 nibble(i64 lane, i64 order) const {
        return load<u32>(4 * metadata_word(lane, order)) >> metadata_shift(lane, order) & 15;
    }
    Entry entry(i64 position) const {
        return {load<u16>(Entry::value_at(layout, position)), load<u16>(Entry::row_at(layout, position)),
                bytes[Entry::column_at(layout, position)]};
    }

    // Calls visit(lane, order, halves, offset of its word) for each group that has some.
    template <class Visit>
    void for_each_group(Visit visit) const {
        for (i64 lane = 0; lane < LANES; lane++) {
            i64 next = 0;
            for (i64 order = 0; order < ORDERS; order++) {
                i64 step = order / ORDERS_OF_STEP;
                if (order % ORDERS_OF_STEP == 0) next = above(lane, step);
                u32 has = halves_of(lane, order);
                next += has & 1;
                if (has) visit(lane, order, has, layout.word_at(bank(lane, step), next - 1));
            }
        }
    }
    // Calls visit(row of the strip, column of the chunk, value) for each half of a word, then for each entry.
    template <class Visit>
    void for_each_value(Visit visit) const {
        for_each_group([&](i64 lane, i64 order, u32 has, i64 at) {
            u32 indices = nibble(lane, order);
            for_each_bit(has, [&](i64 h) {
                i64 index = indices >> 2 * h & 3;
                visit(row_of(lane, order), column_of(lane, order) + index, load<u16>(at + 2 * h));
            });
        });
        for (i64 i = 0; i < PLACES * layout.steps; i++)
            if (Entry e = entry(i); e.row) visit(i64(__builtin_ctz(e.row)), i64(e.column), e.value);
    }
};

bool size_is_sound(const Bytes& chunk) {
    const Layout& layout = chunk.layout;
    if (chunk.size % LINE || chunk.size <= NEAR || layout.lines < 0 || layout.lines > ORDERS ||
        chunk.fours > layout.fours())
        return false;
    i64 far_at = layout.far() ? (chunk.begin + layout.lines_end()) / UNIT : 0;
    return layout.bytes() == chunk.size && chunk.load<u32>(LINES_AT) == layout.stated(chunk.fours) &&
           chunk.load<u32>(FAR_AT) == far_at;
}

// A second half belongs to a word that its group has begun, or the one before of those that have any.
bool halves_are_sound(const Bytes& chunk) {
    bool sound = true;
    for (i64 lane = 0; lane < LANES; lane++) {
        u32 before = 0;
        for (i64 order = 0; order < ORDERS; order++) {
            u32 has = chunk.halves_of(lane, order);
            if (order == ORDERS_OF_STEP) before = 0;
            sound &= has != 2 || before == 1;
            if (has) before = has;
        }
    }
    return sound;
}

bool words_fit(const Bytes& chunk) {
    bool fit = true;
    for (i64 lane = 0; lane < LANES; lane++)
        fit &= chunk.above(lane, 1) + chunk.words(lane, 1) <= chunk.layout.lines;
    return fit;
}

// Entry number n of all, in the order in which they come; those of fours by rows.
i64 position_of(const Bytes& chunk, i64 n) {
    i64 step = n / PLACES, near = chunk.layout.near();
    bool in_four = step < near && step >= near - FOUR * chunk.fours;
    return in_four ? PLACES * step + place_in_four(n % PLACES) : n;
}

// Entries that are not in use come behind the others of their step; there are as many steps as these need.
bool entries_are_sound(const Bytes& chunk) {
    i64 used = 0;
    auto entry_at = [&](i64 position) { return chunk.entry(position); };
    auto at = [&](i64 n) { return entry_at(position_of(chunk, n)); };
    bool sound = true;
    for (i64 n = 0; n < PLACES * chunk.layout.steps; n++) {
        Entry entry = at(n);
        bool one_bit = entry.row && !(entry.row & (entry.row - 1));
        bool follows = n % PLACES == 0 || at(n - 1).row;
        if (entry.row) used++, sound &= one_bit && follows && entry.value;
        else sound &= used && entry.value == 0 && entry.column == unused_column(entry_at, n / PLACES);
    }
    return sound && chunk.layout.steps == steps_for(used);
}

// Either all that there is room for, in which the rows of a step ascend, or none.
bool fours_are_sound(const Bytes& chunk) {
    const Layout& layout = chunk.layout;
    i64 fours = chunk.fours;
    if (fours && fours != layout.fours()) return false;
    Entry entries[NEAR_STEPS * PLACES];
    bool sound = true;
    for (i64 i = 0; i < FOUR * PLACES * fours; i++) {
        i64 n = PLACES * layout.single() + i;
        entries[i] = chunk.entry(n);
        u16 row = chunk.entry(position_of(chunk, n)).row;
        if (n % PLACES) sound &= u16(chunk.entry(position_of(chunk, n - 1)).row - 1) <= u16(row - 1);
    }
    sound &= lane_24::fours_are_sound(entries, fours);
    for (i64 i = 0; i < WORDS_OF_FOUR * layout.fours(); i++) {
        u32 word = fours ? four_metadata(entries + FOUR * PLACES * (i / WORDS_OF_FOUR), i % WORDS_OF_FOUR) : 0;
        sound &= chunk.load<u32>(layout.fours_at() + 4 * i) == word;
    }
    return sound;
}

// Two indices ascend; what one column has for its half is nibble_of; of none, ABSENT.
bool indices_are_sound(const Bytes& chunk) {
    bool sound = true;
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 order = 0; order < ORDERS; order++) {
            u32 has = chunk.halves_of(lane, order), nibble = chunk.nibble(lane, order);
            u32 first = nibble & 3, second = nibble >> 2;
            if (has == 0) sound &= nibble == ABSENT;
            else if (has == 3) sound &= first < second;
            else sound &= nibble == nibble_of(1u << (has == 1 ? first : second), has);
        }
    return sound;
}

bool any_outside(const Bytes& chunk, i64 rows, i64 cols) {
    bool found = false;
    chunk.for_each_value([&](i64 row, i64 col, u16) { found |= row >= rows || col >= cols; });
    return found;
}

// A half that a group has, and that is +0.
bool any_stored_zero(const Bytes& chunk) {
    bool found = false;
    chunk.for_each_value([&](i64, i64, u16 value) { found |= value == 0; });
    return found;
}

// In lines, which have as many non-zeros as groups have halves of words, or behind near or far steps.
bool any_garbage(const Bytes& chunk) {
    const Layout& layout = chunk.layout;
    i64 unused = 0;
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 step = 0; step < STEPS; step++) unused -= __builtin_popcount(chunk.halves(lane, step));
    auto count = [&](i64 from, i64 to) {
        for (i64 at = from; at < to; at += 2) unused += chunk.load<u16>(at) != 0;
    };
    count(layout.lines_at(), layout.lines_end());
    count(layout.near_end(), layout.lines_at());
    count(layout.lines_end() + STEP_BYTES * layout.far(), chunk.size);
    return unused;
}

// The first of them, 0 if there is none. rows, cols: of A, from the chunk's first on.
int problem(const Bytes& chunk, i64 rows, i64 cols) {
    if (!size_is_sound(chunk)) return SIZE;
    if (!is_permutation(chunk.bytes + BANKS)) return BANK;
    if (!halves_are_sound(chunk)) return HALF;
    if (!words_fit(chunk)) return WORDS;
    if (!entries_are_sound(chunk) || !fours_are_sound(chunk)) return ENTRY;
    if (!indices_are_sound(chunk)) return INDEX;
    if (any_outside(chunk, rows, cols)) return OUTSIDE;
    return any_stored_zero(chunk) ? ZERO : any_garbage(chunk) ? GARBAGE : 0;
}

}  // namespace

void lscd::unpack_lane_24_strips(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    unpack_row_block<Bytes>(arrays, M, K, row_block, dense);
}

// Problem by chunk: 1 its size, 2 banks that are not each a lane's, 3 a second half of a word that was
// not begun, 4 more words in a bank than lines, 5 an entry, 6 indices of a group, 7 a value outside of
// the matrix, 8 a stored +0, 9 a non-zero that is no value. The offsets are sound.
LSCD_EXPORT void lscd_lane_24_strips_check(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                           i64* found) {
    check_chunks<Bytes>(data, chunk_start, M, K, found, problem);
}

// nnz [chunks].
LSCD_EXPORT void lscd_lane_24_strips_count(const u8* data, const i32* chunk_start, i64 chunks,
                                           i32* nnz) {
#pragma omp parallel for schedule(static) if (large(chunks * ROWS * COLS))
    for (i64 c = 0; c < chunks; c++) {
        i32 found = 0;
        Bytes(data, chunk_start, c).for_each_value([&](i64, i64, u16) { found++; });
        nnz[c] = found;
    }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_lane_24_strips_unpack(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                            u16* dense) {
    unpack_chunks<Bytes>(data, chunk_start, M, K, dense);
}
