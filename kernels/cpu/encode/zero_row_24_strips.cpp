// Zero-row 2:4 in strips, in four passes (layout: zero_row_24_strips.h).
#include "zero_row_24_placement.h"
#include "zero_row_24_strips.h"

using namespace lscd;
using namespace lscd::zero_row_24;
using namespace lscd::zero_row_24::strips;

namespace {

// Groups of a row of K columns that have three weights.
i64 count_full(const u16* row, i64 K) {
    i64 found = 0;
    for (i64 k = 0; k < K; k += TILE_COLS)
        found += __builtin_popcountll(full_groups(nonzero_mask(row + k, min(TILE_COLS, K - k))));
    return found;
}

void put_chunk(u8* chunk, i64 size, const Contents& contents, const u16* starts) {
    u32 header = u32(contents.entries.steps() | size / UNIT << 8);
    memset(chunk, 0, size);
    contents.entries.copy(chunk + ENTRIES);
    for (i64 m = 0; m < TILES; m++)
        for (i64 g = 0; g < TILE_STREAMS; g++) {
            i64 s = TILE_STREAMS * m + g, above = header >> (g / 2 * 8 + 2 * m) & 3;
            put_stream(chunk, contents.streams[s], PAIRS, m, g, starts[s], above);
        }
}

}  // namespace

// full [M]: groups of each row that have three weights. nonfinite [1]: 1 if a weight has all bits
// of `exponent`.
LSCD_EXPORT void lscd_zero_row_24_strips_scan(const u16* dense, i64 M, i64 K, i64 exponent,
                                              i32* full, i32* nonfinite) {
    bool any = false;
#pragma omp parallel for schedule(static) reduction(|| : any) if (large(M * K))
    for (i64 row = 0; row < M; row++) {
        full[row] = i32(count_full(dense + row * K, K));
        if (!any) any = any_nonfinite(dense + row * K, K, u16(exponent));
    }
    *nonfinite = any;
}

// sent [strips][regular chunks][32]: of stream (tile, g), what goes to level 1 (zero_row_24_sent.h).
LSCD_EXPORT void lscd_zero_row_24_strips_send(const u16* dense, i64 M, i64 K, u32* sent) {
    Grid A{M, K, 1};
    i64 strips = A.chunks() / A.rounds();
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 strip = 0; strip < strips; strip++)
        for (i64 nth = 0; nth < A.regular(); nth++)
            for (i64 m = 0; m < TILES; m++) {
                Tile tile;
                Contents::load(tile, dense, A, strip, nth, m);
                Sent{sent}.find(tile, A.sending(strip, nth), m, Grid::phase(nth, m));
            }
}

// starts [chunks][32]: of stream (tile, g), in bytes from the start of its chunk; sizes [chunks]:
// in units of 16 bytes.
LSCD_EXPORT void lscd_zero_row_24_strips_place(const u16* dense, i64 M, i64 K, i64 levels,
                                               u32* sent, i64 reach, u16* starts, i32* sizes) {
    Grid A{M, K, levels};
#pragma omp parallel for schedule(dynamic, 8) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) {
        Contents contents(dense, A, {sent}, c);
        Placement placement(contents.streams, PAIRS, ENTRIES + contents.entries.bytes());
        placement.place(reach, MOST_BYTES);
        memcpy(starts + c * STREAMS, placement.start, sizeof placement.start);
        sizes[c] = i32(ceil_div(placement.end + TAIL, UNIT));
    }
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_zero_row_24_strips_pack(const u16* dense, i64 M, i64 K, i64 levels,
                                              u32* sent, const u16* starts, const i32* chunk_start,
                                              u8* data) {
    Grid A{M, K, levels};
#pragma omp parallel for schedule(dynamic, 8) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++) {
        i64 size = UNIT * (i64(chunk_start[c + 1]) - chunk_start[c]);
        put_chunk(data + UNIT * chunk_start[c], size, Contents(dense, A, {sent}, c), starts + c * STREAMS);
    }
}
