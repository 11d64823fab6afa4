// Chunks whose lanes have banks, the way back: decoding, counting, and what can be wrong with one (layout: banks.h).
#pragma once
#include "banks.h"
#include "unpack.h"

namespace lscd::banks {

enum Problem { NONE, SIZE, BANK, OTHER_LINES, OUTSIDE, ZERO, GARBAGE, CODE };

// The bytes of a chunk, read. All but `size` is only for those whose size is sound, and what says where values stand
// for those whose banks are.
template <class Layout>
struct Bytes : ChunkBytes {
    using ChunkBytes::ChunkBytes;

    bool size_is_sound() const {
        return size >= Layout::LINES && size > Layout::BANKS && size <= Layout::LINES + LINE * Layout::MOST_LINES &&
               size % LINE == 0;
    }
    Places<Layout> places() const {
        Places<Layout> found;
        for (i64 lane = 0; lane < LANES; lane++)
            for (i64 half = 0; half < HALVES; half++)
                found.orders[lane][half] = Layout::orders_of(bytes, lane, half);
        memcpy(found.banks, bytes + Layout::BANKS, LANES);
        return found;
    }
    // Calls visit(row of the strip, column of the chunk, value) for each.
    template <class Visit>
    void for_each_value(Visit visit) const {
        places().for_each_value([&](i64 row, i64 column, i64 at) { visit(row, column, load<u16>(at)); });
    }
};

// Behind the banks, where non-zeros are values and as many as places have.
template <class Layout>
bool any_garbage(const Bytes<Layout>& chunk, const Places<Layout>& places) {
    i64 unused = -places.values();
    for (i64 at = Layout::BANKS + LANES; at < chunk.size; at += 2) unused += chunk.template load<u16>(at) != 0;
    return unused;
}

// The first of them, 0 if there is none. rows, cols: of A, from the chunk's first on.
template <class Layout>
int problem(const Bytes<Layout>& chunk, i64 rows, i64 cols) {
    if (!chunk.size_is_sound()) return SIZE;
    if (!is_permutation(chunk.bytes + Layout::BANKS)) return BANK;
    auto places = chunk.places();
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 half = 0; half < HALVES; half++)
            if (!Layout::says(chunk.bytes, lane, half, places.orders[lane][half])) return CODE;
    if (chunk.size != places.bytes()) return OTHER_LINES;
    bool outside = false, zero = false;
    places.for_each_value([&](i64 row, i64 column, i64 at) {
        outside |= row >= rows || column >= cols;
        zero |= chunk.template load<u16>(at) == 0;
    });
    return outside ? OUTSIDE : zero ? ZERO : any_garbage(chunk, places) ? GARBAGE : NONE;
}

// nnz [chunks].
template <class Layout>
void count_chunks(const u8* data, const i32* chunk_start, i64 chunks, i32* nnz) {
#pragma omp parallel for schedule(static) if (large(chunks * ROWS * COLS))
    for (i64 c = 0; c < chunks; c++) nnz[c] = i32(Bytes<Layout>(data, chunk_start, c).places().values());
}

}  // namespace lscd::banks
