// 2:4 in strips, a word for each lane, the way back: decoding, counting, and what can be wrong with
// a chunk (layout: lane_24_strips.h).
#include "lane_24_strips.h"
#include "unpack.h"

using namespace lscd;
using namespace lscd::lane_24;

namespace {

constexpr int SIZE = 1, BANK = 2, WORDS = 3, ENTRY = 4, INDEX = 5, OUTSIDE = 6, ZERO = 7, GARBAGE = 8;

// The bytes of a chunk, wherever it stands in A. All but `size` and what is stated in its header is
// only for those whose size is sound.
struct Bytes {
    const u8* bytes;
    i64 begin, size;  // begin: from the start of data
    Layout layout;

    Bytes(const u8* data, const i32* chunk_start, i64 chunk)
        : bytes(data + UNIT * chunk_start[chunk]), begin(UNIT * chunk_start[chunk]),
          size(UNIT * (i64(chunk_start[chunk + 1]) - chunk_start[chunk])), layout{0, 0} {
        if (size <= NEAR) return;
        layout.steps = load<u32>(LINES_AT) >> 16;
        layout.lines = (size - layout.bytes()) / LINE;
    }
    template <class Word>
    Word load(i64 at) const {
        Word word;
        memcpy(&word, bytes + at, sizeof word);
        return word;
    }
    u32 present(i64 lane) const { return load<u32>(PRESENT + 4 * lane); }
    // How many words a lane has, and in which bank those of step 1 stand.
    i64 words(i64 lane, i64 step) const { return __builtin_popcount(present(lane) >> 16 * step & 0xffff); }
    i64 bank(i64 lane) const { return bytes[BANKS + lane]; }
    u32 nibble(i64 lane, i64 order) const {
        return load<u32>(4 * metadata_word(lane, order)) >> metadata_shift(lane, order) & 15;
    }
    Entry entry(i64 position) const {
        return {load<u16>(Entry::value_at(layout, position)), load<u16>(Entry::row_at(layout, position)),
                bytes[Entry::column_at(layout, position)]};
    }

    // Calls visit(lane, order, offset) for each word.
    template <class Visit>
    void for_each_word(Visit visit) const {
        for (i64 lane = 0; lane < LANES; lane++) {
            i64 line[] = {0, words(bank(lane), 0)};
            for_each_bit(present(lane), [&](i64 order) {
                i64 step = order / ORDERS_OF_STEP;
                visit(lane, order, layout.word_at(step ? bank(lane) : lane, line[step]++));
            });
        }
    }
    // Calls visit(bank, words in it).
    template <class Visit>
    void for_each_bank(Visit visit) const {
        for (i64 lane = 0; lane < LANES; lane++)
            visit(bank(lane), words(bank(lane), 0) + words(lane, 1));
    }
    // Calls visit(row of the strip, column of the chunk, value) for each non-zero.
    template <class Visit>
    void for_each_value(Visit visit) const {
        for_each_word([&](i64 lane, i64 order, i64 at) {
            u32 indices = nibble(lane, order);
            for (i64 slot = 0; slot < 2; slot++) {
                i64 index = indices >> 2 * slot & 3;
                if (u16 value = load<u16>(at + 2 * slot))
                    visit(row_of(lane, order), column_of(lane, order) + index, value);
            }
        });
        for (i64 i = 0; i < PLACES * layout.steps; i++)
            if (Entry e = entry(i); e.row) visit(i64(__builtin_ctz(e.row)), i64(e.column), e.value);
    }
};

bool size_is_sound(const Bytes& chunk) {
    const Layout& layout = chunk.layout;
    if (chunk.size % LINE || chunk.size <= NEAR || layout.lines < 0 || layout.lines > ORDERS)
        return false;
    i64 far_at = layout.far() ? (chunk.begin + layout.lines_end()) / UNIT : 0;
    return layout.bytes() == chunk.size && chunk.load<u16>(LINES_AT) == layout.lines_at() &&
           chunk.load<u32>(FAR_AT) == far_at;
}

bool banks_are_sound(const Bytes& chunk) {
    u32 found = 0;
    for (i64 lane = 0; lane < LANES; lane++)
        if (chunk.bank(lane) < LANES) found |= 1u << chunk.bank(lane);
    return found == ~0u;
}

bool words_fit(const Bytes& chunk) {
    bool fit = true;
    chunk.for_each_bank([&](i64, i64 words) { fit &= words <= chunk.layout.lines; });
    return fit;
}

// Only the last step may have entries that are not in use, behind all others.
bool entries_are_sound(const Bytes& chunk) {
    bool sound = true, ended = false;
    i64 last = PLACES * (chunk.layout.steps - 1);
    for (i64 i = 0; i < PLACES * chunk.layout.steps; i++) {
        Entry e = chunk.entry(i);
        bool one_bit = e.row && !(e.row & (e.row - 1));
        if (e.row) sound &= !ended && one_bit && e.value;
        else sound &= i > last && e.value == 0 && e.column == chunk.entry(last).column;
        ended |= e.row == 0;
    }
    return sound;
}

bool indices_are_sound(const Bytes& chunk) {
    bool sound = true;
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 order = 0; order < ORDERS; order++) {
            u32 nibble = chunk.nibble(lane, order);
            bool absent = !(chunk.present(lane) >> order & 1);
            sound &= absent ? nibble == ABSENT : (nibble & 3) < nibble >> 2;
        }
    return sound;
}

bool any_outside(const Bytes& chunk, i64 rows, i64 cols) {
    bool found = false;
    chunk.for_each_value([&](i64 row, i64 col, u16) { found |= row >= rows || col >= cols; });
    return found;
}

bool any_empty_word(const Bytes& chunk) {
    bool found = false;
    chunk.for_each_word([&](i64, i64, i64 at) { found |= chunk.load<u32>(at) == 0; });
    return found;
}

// Behind a bank's words, or behind near or far steps.
bool any_garbage(const Bytes& chunk) {
    const Layout& layout = chunk.layout;
    bool found = false;
    auto check = [&](i64 from, i64 to) {
        for (i64 at = from; at < to; at += 2) found |= chunk.load<u16>(at) != 0;
    };
    check(NEAR + STEP_BYTES * layout.near(), layout.lines_at());
    check(layout.lines_end() + STEP_BYTES * layout.far(), chunk.size);
    chunk.for_each_bank([&](i64 bank, i64 words) {
        for (i64 line = words; line < layout.lines; line++)
            found |= chunk.load<u32>(layout.word_at(bank, line)) != 0;
    });
    return found;
}

// The first of them, 0 if there is none. rows, cols: of A, from the chunk's first on.
int problem(const Bytes& chunk, i64 rows, i64 cols) {
    if (!size_is_sound(chunk)) return SIZE;
    if (!banks_are_sound(chunk)) return BANK;
    if (!words_fit(chunk)) return WORDS;
    if (!entries_are_sound(chunk)) return ENTRY;
    if (!indices_are_sound(chunk)) return INDEX;
    if (any_outside(chunk, rows, cols)) return OUTSIDE;
    return any_empty_word(chunk) ? ZERO : any_garbage(chunk) ? GARBAGE : 0;
}

void unpack_chunk(const u8* data, const i32* chunk_start, const Grid& A, i64 c, u16* dense) {
    u16* origin = dense + A.row(c) * A.K + A.column(c);
    Bytes(data, chunk_start, c).for_each_value([&](i64 row, i64 col, u16 value) {
        origin[row * A.K + col] = value;
    });
}

}  // namespace

void lscd::unpack_lane_24_strips(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    Grid A{min(STRIPS * ROWS, M - row_block * STRIPS * ROWS), K};
    auto chunk_start = (const i32*)arrays[0] + row_block * A.chunks();
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk((const u8*)arrays[1], chunk_start, A, c, dense);
}

// Problem by chunk: 1 its size, 2 banks that are not each a lane's, 3 more words in a bank than lines,
// 4 an entry, 5 a group whose indices do not ascend, 6 a value outside of the matrix, 7 a stored +0,
// 8 a non-zero that is no value. The offsets are sound.
LSCD_EXPORT void lscd_lane_24_strips_check(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                           i64* found) {
    Grid A{M, K};
    first_problem(A.chunks(), M * K, found, [&](i64 c) {
        return problem(Bytes(data, chunk_start, c), M - A.row(c), K - A.column(c));
    });
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
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk(data, chunk_start, A, c, dense);
}
