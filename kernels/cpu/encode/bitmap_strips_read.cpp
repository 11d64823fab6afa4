// Bitmaps and values for each lane, the way back: decoding, counting, and what can be wrong with a
// chunk (layout: bitmap_strips.h).
#include "bitmap_strips.h"
#include "unpack.h"

using namespace lscd;
using namespace lscd::bitmap_strips;

namespace {

constexpr int SIZE = 1, BANK = 2, OTHER_LINES = 3, OUTSIDE = 4, ZERO = 5, GARBAGE = 6;

// The bytes of a chunk, read. All but `size` is only for those whose size is sound, and what says
// where values stand for those whose banks are.
struct Bytes : ChunkBytes {
    using ChunkBytes::ChunkBytes;

    bool size_is_sound() const {
        return size >= LINES && size <= LINES + LINE * MOST_LINES && size % LINE == 0;
    }
    Places places() const {
        Places found;
        for (i64 lane = 0; lane < LANES; lane++)
            for (i64 half = 0; half < HALVES; half++) {
                i64 at = 4 * (WORDS * lane + 2 * half);
                u64 first = orders_of_word(load<u32>(at)), second = orders_of_word(load<u32>(at + 4));
                found.orders[lane][half] = first | second << 32;
            }
        memcpy(found.banks, bytes + BANKS, LANES);
        return found;
    }
    // Calls visit(row of the strip, column of the chunk, value) for each.
    template <class Visit>
    void for_each_value(Visit visit) const {
        places().for_each_value(
            [&](i64 row, i64 column, i64 at) { visit(row, column, load<u16>(at)); });
    }
};

// Behind the banks, where non-zeros are values and as many as places have.
bool any_garbage(const Bytes& chunk, const Places& places) {
    i64 unused = -places.values();
    for (i64 at = ZEROS; at < chunk.size; at += 2) unused += chunk.load<u16>(at) != 0;
    return unused;
}

// The first of them, 0 if there is none. rows, cols: of A, from the chunk's first on.
int problem(const Bytes& chunk, i64 rows, i64 cols) {
    if (!chunk.size_is_sound()) return SIZE;
    if (!is_permutation(chunk.bytes + BANKS)) return BANK;
    Places places = chunk.places();
    if (chunk.size != LINES + LINE * places.lines()) return OTHER_LINES;
    bool outside = false, zero = false;
    places.for_each_value([&](i64 row, i64 column, i64 at) {
        outside |= row >= rows || column >= cols;
        zero |= chunk.load<u16>(at) == 0;
    });
    return outside ? OUTSIDE : zero ? ZERO : any_garbage(chunk, places) ? GARBAGE : 0;
}

}  // namespace

void lscd::unpack_bitmap_strips(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    unpack_row_block<Bytes>(arrays, M, K, row_block, dense);
}

// Problem by chunk: 1 its size, 2 banks that are not each a lane's, 3 other lines than its values
// need, 4 a value outside of the matrix, 5 a stored +0, 6 a non-zero that is no value. The offsets are
// sound.
LSCD_EXPORT void lscd_bitmap_strips_check(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                          i64* found) {
    check_chunks<Bytes>(data, chunk_start, M, K, found, problem);
}

// nnz [chunks].
LSCD_EXPORT void lscd_bitmap_strips_count(const u8* data, const i32* chunk_start, i64 chunks,
                                          i32* nnz) {
#pragma omp parallel for schedule(static) if (large(chunks * ROWS * COLS))
    for (i64 c = 0; c < chunks; c++) nnz[c] = i32(Bytes(data, chunk_start, c).places().values());
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_bitmap_strips_unpack(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                           u16* dense) {
    unpack_chunks<Bytes>(data, chunk_start, M, K, dense);
}
