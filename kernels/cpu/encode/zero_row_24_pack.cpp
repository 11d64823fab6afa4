// Zero-row 2:4, pass three: the bytes of each chunk (layout: zero_row_24.h).
#include "zero_row_24_tile.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

// Metadata, start and values of one stream.
void put_stream(u8* chunk, i64 bytes, const Stream& stream, i64 m, i64 g, u16 start) {
    for (int i = 0; i < 4; i++) memcpy(chunk + 16 * (4 * g + i) + 4 * m, &stream.code[i], 4);
    u16 stated = u16(start | (bytes / UNIT >> 2 * m & 3) << 14);
    memcpy(chunk + STARTS + 2 * (TILES * g + m), &stated, 2);
    memcpy(chunk + start, stream.value, 2 * stream.count);
}

// Columns of tile m of an extra chunk, four for each group.
void put_list(u8* chunk, const Queue& queue, i64 nth, i64 m) {
    u16 columns[GROUPS][4];
    for (i64 group = 0; group < GROUPS; group++)
        for (i64 i = 0; i < 4; i++)
            columns[group][i] = i < 3 ? u16(queue.column(nth * COLS + 3 * group + i)) : NOTHING;
    memcpy(chunk + LISTS + m * i64(sizeof columns), columns, sizeof columns);
}

}  // namespace

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_zero_row_24_pack(const u16* dense, i64 M, i64 K, i64 slice_cols, i64 pairs,
                                       u32* queues, const i32* queued, const i32* first_chunk,
                                       i64 /*chunks*/, const u16* starts, const i32* chunk_start,
                                       u8* data) {
    Plan plan{{M, K, slice_cols}, bool(pairs), dense, queues, queued, first_chunk};
#pragma omp parallel for schedule(dynamic) if (large(M * K))
    for (i64 z = 0; z < plan.grid.blocks(); z++)
        for (i64 c = first_chunk[z]; c < first_chunk[z + 1]; c++) {
            u8* chunk = data + START_BYTES * chunk_start[c];
            i64 bytes = START_BYTES * (chunk_start[c + 1] - chunk_start[c]);
            i64 nth = c - first_chunk[z], extra = nth - Block(plan.grid, z).regular;
            memset(chunk, 0, bytes);
            for (i64 m = 0; m < TILES; m++) {
                Tile tile;
                tile.load(plan, z, nth, m);
                for (int g = 0; g < 8; g++) {
                    u16 start = starts[c * STREAMS + 8 * m + g];
                    put_stream(chunk, bytes, tile.stream(g, pairs), m, g, start);
                }
                if (extra >= 0) put_list(chunk, plan.queue(z, m), extra, m);
            }
        }
}
