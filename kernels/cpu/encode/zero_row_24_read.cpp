// Zero-row 2:4, the way back: decoding, counting, and what can be wrong with a chunk (layout:
// zero_row_24.h).
#include "zero_row_24_chunk.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

constexpr int SIZE = 1, START = 2, LIST = 3, LEAVES = 4, INDEX = 5, OUTSIDE = 6, TWICE = 7;
constexpr int ZERO = 8, GARBAGE = 9;

int header_problem(const Chunk& chunk) {
    i64 first = header_bytes(chunk.extra), stated = 0;
    if (chunk.size % UNIT || chunk.size > MOST_BYTES || chunk.size < first + TAIL) return SIZE;
    bool same = true, sound = true, listed = true;
    for (i64 m = 0; m < TILES; m++) {
        stated |= i64(chunk.size_bits(m, 0)) << 2 * m;
        for (i64 g = 0; g < 8; g++) {
            i64 start = chunk.start(m, g);
            same &= chunk.size_bits(m, g) == chunk.size_bits(m, 0);
            sound &= first <= start && start <= chunk.size - TAIL;
            sound &= start % (chunk.pairs ? 4 : 2) == 0;
        }
        for (i64 i = 0; chunk.extra && i < 4 * GROUPS; i++) {
            u16 column = chunk.listed(m, i / 4, i % 4);
            listed &= column == NOTHING || (i % 4 < 3 && column < chunk.block.cols);
        }
    }
    if (!same || stated * UNIT != chunk.size) return SIZE;
    return !sound ? START : !listed ? LIST : 0;
}

// Of a chunk whose header is sound.
int metadata_problem(const Chunk& chunk) {
    bool leaves = false, index = false, outside = false;
    for (i64 m = 0; m < TILES; m++)
        for (int g = 0; g < 8; g++) {
            i64 end = chunk.for_each_value(m, g, [&](i64 row, i64 column, i64) {
                outside |= row >= chunk.rows || column >= chunk.block.cols;
            });
            leaves |= end > chunk.size - TAIL;
            for (int order = 0; order < ORDERS; order++) {
                int code = chunk.nibble(m, g, order);
                index |= (code & 3) == code >> 2 && code >> 2 != 3;
            }
        }
    return leaves ? LEAVES : index ? INDEX : outside ? OUTSIDE : 0;
}

// Of a chunk whose metadata are sound. What is no value must be zero: a slot that is not in use may
// read it, and it must be finite. nonfinite: whether a value has all bits of `exponent` set.
int value_problem(const Chunk& chunk, u16 exponent, bool& nonfinite) {
    u8 used[MOST_BYTES / 2] = {};
    bool twice = false, zero = false, garbage = false;
    chunk.for_each_value([&](i64, i64, i64 at) {
        u16 value = chunk.half(at);
        twice |= used[at / 2]++ != 0;
        zero |= value == 0;
        nonfinite |= (value & exponent) == exponent;
    });
    for (i64 at = header_bytes(chunk.extra); at < chunk.size; at += 2)
        garbage |= !used[at / 2] && chunk.half(at) != 0;
    return twice ? TWICE : zero ? ZERO : garbage ? GARBAGE : 0;
}

}  // namespace

// Problem by chunk: 1 its size, 2 a start, 3 a list, 4 a stream that leaves the chunk, 5 a group
// with one index twice, 6 a value outside of the matrix, 7 two values in one place, 8 a stored +0,
// 9 a non-zero that is no value. The offsets are sound. nonfinite [1], of zeros: 1 if a value is.
LSCD_EXPORT void lscd_zero_row_24_check(const u8* data, const i32* chunk_start,
                                        const i32* first_chunk, i64 M, i64 K, i64 slice_cols,
                                        i64 pairs, i64 chunks, i64 exponent, i32* nonfinite,
                                        i64* found) {
    Encoding A{{M, K, slice_cols}, bool(pairs), data, chunk_start, first_chunk};
    first_problem(chunks, M * K, found, [&](i64 c) {
        Chunk chunk(A, c, A.block_of(c));
        bool any = false;
        int problem = header_problem(chunk);
        if (!problem) problem = metadata_problem(chunk);
        if (!problem) problem = value_problem(chunk, u16(exponent), any);
        if (any) {
#pragma omp atomic write
            *nonfinite = 1;
        }
        return problem;
    });
}

// nnz [chunks]: slots in use.
LSCD_EXPORT void lscd_zero_row_24_count(const u8* data, const i32* chunk_start, i64 chunks,
                                        i32* nnz) {
#pragma omp parallel for schedule(static) if (large(chunks * ROWS * COLS))
    for (i64 c = 0; c < chunks; c++) {
        const u8* metadata = data + START_BYTES * chunk_start[c];
        nnz[c] = 0;
        for (i64 i = 0; i < STARTS / 8; i++) {
            u64 word, low = 0x5555555555555555;
            memcpy(&word, metadata + 8 * i, 8);
            nnz[c] += __builtin_popcountll(~(word & word >> 1) & low);
        }
    }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_zero_row_24_unpack(const u8* data, const i32* chunk_start,
                                         const i32* first_chunk, i64 M, i64 K, i64 slice_cols,
                                         i64 pairs, i64 chunks, u16* dense) {
    Encoding A{{M, K, slice_cols}, bool(pairs), data, chunk_start, first_chunk};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < chunks; c++) {
        Chunk chunk(A, c, A.block_of(c));
        u16* origin = dense + chunk.block.row * K + chunk.block.col;
        chunk.for_each_value(
            [&](i64 row, i64 column, i64 at) { origin[row * K + column] = chunk.half(at); });
    }
}
