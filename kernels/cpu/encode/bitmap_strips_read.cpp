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

void unpack_chunk(const u8* data, const i32* chunk_start, const Grid& A, i64 c, u16* dense) {
    Bytes chunk(data, chunk_start, c);
    u16* origin = dense + A.row(c) * A.K + A.column(c);
    chunk.places().for_each_value([&](i64 row, i64 column, i64 at) {
        origin[row * A.K + column] = chunk.load<u16>(at);
    });
}

}  // namespace

void lscd::unpack_bitmap_strips(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    Grid A{min(STRIPS * ROWS, M - row_block * STRIPS * ROWS), K};
    auto chunk_start = (const i32*)arrays[0] + row_block * A.chunks();
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk((const u8*)arrays[1], chunk_start, A, c, dense);
}

// Problem by chunk: 1 its size, 2 banks that are not each a lane's, 3 other lines than its values
// need, 4 a value outside of the matrix, 5 a stored +0, 6 a non-zero that is no value. The offsets are
// sound.
LSCD_EXPORT void lscd_bitmap_strips_check(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                          i64* found) {
    Grid A{M, K};
    first_problem(A.chunks(), M * K, found, [&](i64 c) {
        return problem(Bytes(data, chunk_start, c), M - A.row(c), K - A.column(c));
    });
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
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk(data, chunk_start, A, c, dense);
}
