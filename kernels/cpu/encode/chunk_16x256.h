// What lane_24_strips, bitmap_strips and coded_strips share: chunks of 16 rows and 256 columns in strips
// of 16 rows, whole 64 rows of them, each chunk for the 32 lanes of a warp and in whole 128 bytes.
#pragma once
#include "scan.h"

namespace lscd::chunk_16x256 {

constexpr i64 ROWS = 16, COLS = 256, STRIPS = 4;  // the last: of 64 rows
constexpr i64 LANES = 32, UNIT = 16, LINE = 128;

// A [M, K], cut into chunks.
struct Grid {
    i64 M, K;
    i64 rounds() const { return ceil_div(K, COLS); }
    i64 chunks() const { return ceil_div(M, STRIPS * ROWS) * STRIPS * rounds(); }
    i64 row(i64 chunk) const { return chunk / rounds() * ROWS; }
    i64 column(i64 chunk) const { return chunk % rounds() * COLS; }
};

// The weights of a chunk; zeros outside of A.
struct ChunkWeights {
    u16 weight[ROWS][COLS];
    u64 nonzero[ROWS][COLS / 64];

    ChunkWeights(const u16* dense, const Grid& A, i64 chunk) {
        i64 row = A.row(chunk), col = A.column(chunk), cols = min(COLS, A.K - col);
        for (i64 r = 0; r < ROWS; r++) {
            i64 n = row + r < A.M ? cols : 0;
            if (n) memcpy(weight[r], dense + (row + r) * A.K + col, 2 * n);
            memset(weight[r] + n, 0, 2 * (COLS - n));
            for (i64 i = 0; i < COLS; i += 64) nonzero[r][i / 64] = nonzero_mask(weight[r] + i, 64);
        }
    }
};

// The bytes of a chunk, wherever it stands in `data`.
struct ChunkBytes {
    const u8* bytes;
    i64 begin, size;  // begin: from the start of data

    ChunkBytes(const u8* data, const i32* chunk_start, i64 chunk)
        : bytes(data + UNIT * chunk_start[chunk]), begin(UNIT * chunk_start[chunk]),
          size(UNIT * (i64(chunk_start[chunk + 1]) - chunk_start[chunk])) {}

    template <class Word>
    Word load(i64 at) const {
        Word word;
        memcpy(&word, bytes + at, sizeof word);
        return word;
    }
};

// Of a format's Bytes, which are ChunkBytes with for_each_value(visit): visit(row of the strip, column of
// the chunk, value).

template <class Bytes>
void unpack_chunk(const u8* data, const i32* chunk_start, const Grid& A, i64 c, u16* dense) {
    u16* origin = dense + A.row(c) * A.K + A.column(c);
    Bytes(data, chunk_start, c).for_each_value([&](i64 row, i64 col, u16 value) {
        origin[row * A.K + col] = value;
    });
}

// The non-zeros, and nothing else, of whole strips whose first chunk is that of chunk_start[0].
template <class Bytes>
void unpack_chunks(const u8* data, const i32* chunk_start, i64 M, i64 K, u16* dense) {
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk<Bytes>(data, chunk_start, A, c, dense);
}

// As UnpackRows (unpack.h): in one thread, which has a row block of its own. `arrays`: chunk_start, data.
template <class Bytes>
void unpack_row_block(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    Grid A{min(STRIPS * ROWS, M - row_block * STRIPS * ROWS), K};
    auto chunk_start = (const i32*)arrays[0] + row_block * A.chunks();
    for (i64 c = 0; c < A.chunks(); c++)
        unpack_chunk<Bytes>((const u8*)arrays[1], chunk_start, A, c, dense);
}

// problem(chunk, rows, cols): its number, 0 if there is none; rows, cols: of A, from the chunk's first on.
template <class Bytes>
void check_chunks(const u8* data, const i32* chunk_start, i64 M, i64 K, i64* found,
                  int problem(const Bytes&, i64, i64)) {
    Grid A{M, K};
    first_problem(A.chunks(), M * K, found, [&](i64 c) {
        return problem(Bytes(data, chunk_start, c), M - A.row(c), K - A.column(c));
    });
}

// Whether each of these is one lane's.
inline bool is_permutation(const u8* lanes) {
    u32 found = 0;
    for (i64 i = 0; i < LANES; i++)
        if (lanes[i] < LANES) found |= 1u << lanes[i];
    return found == ~0u;
}

}  // namespace lscd::chunk_16x256
