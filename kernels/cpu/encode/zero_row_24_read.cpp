// Zero-row 2:4, the way back: decoding, counting, and what can be wrong with a chunk (layout:
// zero_row_24.h).
#include "unpack.h"
#include "zero_row_24_chunk.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

int header_problem(const Chunk& chunk) {
    i64 first = chunk.first(), least = chunk_bytes(chunk.kind, first);
    if (chunk.size % UNIT || chunk.size > most_bytes(chunk.kind) || chunk.size < least) return SIZE;
    bool sized = true, listed = true;
    for (i64 m = 0; m < TILES; m++) {
        i64 size = stated_size(chunk.kind, chunk.size, m);
        for (i64 g = 0; g < TILE_STREAMS; g++) sized &= chunk.above_start(m, g) == size;
        for (i64 i = 0; chunk.extra && i < 4 * groups_of(chunk.kind); i++) {
            u16 column = chunk.listed(m, i / 4, i % 4);
            listed &= column == NOTHING || (i % 4 < 3 && column < chunk.block.cols);
        }
    }
    if (!sized) return SIZE;
    return !chunk.starts_within(first) ? START : !listed ? OWN : 0;
}

// Block z, of 64 rows whose first element is `rows`.
void unpack_block(const Encoding& A, i64 z, u16* rows) {
    for (i64 c = A.first_chunk[z]; c < A.first_chunk[z + 1]; c++) {
        Chunk chunk(A, c, z);
        u16* origin = rows + chunk.block.col;
        chunk.for_each_value(
            [&](i64 row, i64 column, i64 at) { origin[row * A.grid.K + column] = chunk.half(at); });
    }
}

}  // namespace

void lscd::unpack_zero_row_24(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    auto geometry = (const i32*)arrays[2];
    Encoding A{{M, K, geometry[0], geometry[1], Kind(geometry[2])}, (const u8*)arrays[3],
               (const i32*)arrays[0], (const i32*)arrays[1]};
    for (i64 z = row_block; z < A.grid.blocks(); z += A.grid.row_blocks()) unpack_block(A, z, dense);
}

// Problem by chunk: 1 its size, 2 a start, 3 a list, 4 a stream that leaves the chunk, 5 a group
// whose indices do not ascend, 6 a value outside of the matrix, 7 two values in one place, 8 a stored +0,
// 9 a non-zero that is no value. The offsets are sound. nonfinite [1], of zeros: 1 if a value is.
LSCD_EXPORT void lscd_zero_row_24_check(const u8* data, const i32* chunk_start,
                                        const i32* first_chunk, i64 M, i64 K, i64 slice_cols,
                                        i64 levels, i64 kind, i64 chunks, i64 exponent,
                                        i32* nonfinite, i64* found) {
    Encoding A{{M, K, slice_cols, levels, Kind(kind)}, data, chunk_start, first_chunk};
    first_problem(chunks, M * K, found, [&](i64 c) {
        Chunk chunk(A, c, A.block_of(c));
        bool any = false;
        int problem = header_problem(chunk);
        if (!problem) problem = metadata_problem(chunk);
        if (!problem) problem = value_problem<MOST_BYTES>(chunk, chunk.first(), u16(exponent), any);
        if (any) {
#pragma omp atomic write
            *nonfinite = 1;
        }
        return problem;
    });
}

// nnz [chunks]: slots in use.
LSCD_EXPORT void lscd_zero_row_24_count(const u8* data, const i32* chunk_start,
                                        const i32* first_chunk, i64 M, i64 K, i64 slice_cols,
                                        i64 levels, i64 kind, i64 chunks, i32* nnz) {
    Encoding A{{M, K, slice_cols, levels, Kind(kind)}, data, chunk_start, first_chunk};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < chunks; c++) nnz[c] = i32(Chunk(A, c, A.block_of(c)).count());
}

// Writes the non-zeros, and nothing else, of `rows` rows from `first_row` on into dense [rows, K].
// They are whole 64 rows, but for the last ones of A.
LSCD_EXPORT void lscd_zero_row_24_unpack(const u8* data, const i32* chunk_start,
                                         const i32* first_chunk, i64 M, i64 K, i64 slice_cols,
                                         i64 levels, i64 kind, i64 /*chunks*/, i64 /*largest*/,
                                         i64 first_row, i64 rows, u16* dense) {
    Encoding A{{M, K, slice_cols, levels, Kind(kind)}, data, chunk_start, first_chunk};
    i64 first = first_row / ROWS, row_blocks = ceil_div(rows, ROWS);
#pragma omp parallel for collapse(2) schedule(static) if (large(rows * K))
    for (i64 slice = 0; slice < ceil_div(K, slice_cols); slice++)
        for (i64 b = 0; b < row_blocks; b++)
            unpack_block(A, slice * A.grid.row_blocks() + first + b, dense + b * ROWS * K);
}
