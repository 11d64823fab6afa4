// Zero-row 2:4 in strips, the way back: decoding, counting, and what can be wrong with a chunk
// (layout: zero_row_24_strips.h).
#include "unpack.h"
#include "zero_row_24_streams.h"
#include "zero_row_24_strips.h"

using namespace lscd;
using namespace lscd::zero_row_24;
using namespace lscd::zero_row_24::strips;

namespace {

struct Entry {
    u32 bits;
    u16 value() const { return u16(bits); }
    i64 row() const { return bits >> 24; }
    i64 of_b() const { return bits >> 16 & 255; }  // row of B'
    bool used() const { return of_b() % 4 != 3; }
    i64 column() const { return of_b() / 4 * 3 + of_b() % 4; }  // of the chunk
    bool in(i64 place) const {
        return used() ? of_b() % PLACES == place && row() < ROWS : bits == no_entry(place);
    }
};

// The bytes of a chunk, wherever it stands in A.
struct Bytes : Streams {
    Bytes(const u8* data, const i32* chunk_start, i64 chunk)
        : Streams{data + UNIT * chunk_start[chunk],
                  UNIT * (i64(chunk_start[chunk + 1]) - chunk_start[chunk]), PAIRS} {}

    // The bits above starts of g and g + 1 are the same.
    bool header_agrees() const {
        bool same = true;
        for (i64 m = 0; m < TILES; m++)
            for (i64 g = 0; g < TILE_STREAMS; g += 2)
                same &= above_start(m, g) == above_start(m, g + 1);
        return same;
    }
    u32 header() const {
        u32 bits = 0;
        for (i64 i = 0; i < 16; i++) bits |= u32(above_start(i % 4, i / 4 * 2)) << 2 * i;
        return bits;
    }
    i64 stated_size() const { return UNIT * i64(header() >> 8); }
    i64 steps() const { return header() & 255; }
    i64 first() const { return ENTRIES + STEP_BYTES * steps(); }  // where streams may begin

    // Calls visit(entry, place in its step, offset).
    template <class Visit>
    void for_each_entry(Visit visit) const {
        for (i64 i = 0; i < PLACES * steps(); i++)
            visit(Entry{load<u32>(ENTRIES + 4 * i)}, i % PLACES, ENTRIES + 4 * i);
    }
};

struct Chunk : Bytes {
    const Grid& A;
    i64 row, round;  // its first row of A; its round

    Chunk(const u8* data, const i32* chunk_start, const Grid& A, i64 chunk)
        : Bytes(data, chunk_start, chunk), A(A), row(chunk / A.rounds() * ROWS),
          round(chunk % A.rounds()) {}

    bool inside(i64 m, i64 k) const { return m < A.M && k < A.K; }

    // Calls visit(row of A, column of A, offset) for each value of a stream; returns the offset
    // after the last one.
    template <class Visit>
    i64 for_each_value(i64 m, int g, Visit visit) const {
        return for_each_of_stream(m, g, [&](int r, int group, int index, i64 at) {
            visit(row + r, A.column(round, m * TILE_COLS + 3 * group + index), at);
        });
    }
    // The same of all streams, and of entries.
    template <class Visit>
    void for_each_value(Visit visit) const {
        for (i64 m = 0; m < TILES; m++)
            for (int g = 0; g < TILE_STREAMS; g++) for_each_value(m, g, visit);
        for_each_entry([&](Entry entry, i64, i64 at) {
            if (entry.used()) visit(row + entry.row(), A.column(round, entry.column()), at);
        });
    }
};

int header_problem(const Chunk& chunk) {
    if (chunk.size > UNIT * MOST_UNITS || chunk.size < ENTRIES + TAIL) return SIZE;
    if (!chunk.header_agrees() || chunk.stated_size() != chunk.size) return SIZE;
    if (chunk.first() + TAIL > chunk.size) return SIZE;
    if (!chunk.starts_within(chunk.first())) return START;
    bool sound = true;
    chunk.for_each_entry([&](Entry entry, i64 place, i64) { sound &= entry.in(place); });
    return sound ? 0 : OWN;
}

void unpack_chunk(const u8* data, const i32* chunk_start, const Grid& A, i64 c, u16* dense) {
    Chunk chunk(data, chunk_start, A, c);
    chunk.for_each_value([&](i64 m, i64 k, i64 at) { dense[m * A.K + k] = chunk.half(at); });
}

}  // namespace

void lscd::unpack_zero_row_24_strips(const void* const* arrays, i64 M, i64 K, i64 row_block,
                                     u16* dense) {
    i64 rows = min(STRIPS * ROWS, M - row_block * STRIPS * ROWS), levels = *(const i32*)arrays[1];
    Grid A{rows, K, levels};
    auto chunk_start = (const i32*)arrays[0] + row_block * A.chunks();
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk((const u8*)arrays[2], chunk_start, A, c, dense);
}

// Problem by chunk: 1 its size, 2 a start, 3 an entry, 4 a stream that leaves the chunk, 5 a group
// whose indices do not ascend, 6 a value outside of the matrix, 7 two values in one place, 8 a stored +0,
// 9 a non-zero that is no value. The offsets are sound. nonfinite [1], of zeros: 1 if a value is.
LSCD_EXPORT void lscd_zero_row_24_strips_check(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                               i64 levels, i64 exponent, i32* nonfinite,
                                               i64* found) {
    Grid A{M, K, levels};
    first_problem(A.chunks(), M * K, found, [&](i64 c) {
        Chunk chunk(data, chunk_start, A, c);
        bool any = false;
        int problem = header_problem(chunk);
        if (!problem) problem = metadata_problem(chunk);
        if (!problem)
            problem = value_problem<UNIT * MOST_UNITS>(chunk, chunk.first(), u16(exponent), any);
        if (any) {
#pragma omp atomic write
            *nonfinite = 1;
        }
        return problem;
    });
}

// nnz [chunks]: slots and entries in use.
LSCD_EXPORT void lscd_zero_row_24_strips_count(const u8* data, const i32* chunk_start, i64 chunks,
                                               i32* nnz) {
#pragma omp parallel for schedule(static) if (large(chunks * ROWS * COLS))
    for (i64 c = 0; c < chunks; c++) {
        Bytes chunk(data, chunk_start, c);
        nnz[c] = i32(chunk.count());
        chunk.for_each_entry([&](Entry entry, i64, i64) { nnz[c] += entry.used(); });
    }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_zero_row_24_strips_unpack(const u8* data, const i32* chunk_start, i64 M,
                                                i64 K, i64 levels, i64 /*largest*/, u16* dense) {
    Grid A{M, K, levels};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) unpack_chunk(data, chunk_start, A, c, dense);
}
