// Zero-row 2:4, pass four: the bytes of each chunk (layout: zero_row_24.h).
#include "zero_row_24_load.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

// Columns of tile m of an extra chunk, four for each group.
void put_list(u8* lists, const Queue& queue, i64 nth, i64 m) {
    i64 groups = groups_of(queue.kind);
    for (i64 i = 0; i < 4 * groups; i++) {
        u16 column = i % 4 < 3 ? u16(queue.column(queue.word_of(nth, i / 4 * 3 + i % 4))) : NOTHING;
        memcpy(lists + 2 * (m * 4 * groups + i), &column, sizeof column);
    }
}

}  // namespace

// data [16 * chunk_start[chunks]]; largest: bytes of the largest chunk.
LSCD_EXPORT void lscd_zero_row_24_pack(const u16* dense, i64 M, i64 K, i64 slice_cols, i64 levels,
                                       i64 kind, u32* queues, const i32* queued,
                                       const i32* first_chunk, i64 /*chunks*/, u32* sent, i64 /*largest*/,
                                       const u16* starts, const i32* chunk_start, u8* data) {
    Plan plan{{M, K, slice_cols, levels, Kind(kind)}, dense, queues, queued, first_chunk, {sent}};
#pragma omp parallel for schedule(dynamic) if (large(M * K))
    for (i64 z = 0; z < plan.grid.blocks(); z++)
        for (i64 c = first_chunk[z]; c < first_chunk[z + 1]; c++) {
            u8* chunk = data + START_BYTES * chunk_start[c];
            i64 bytes = START_BYTES * (chunk_start[c + 1] - chunk_start[c]);
            i64 nth = c - first_chunk[z], extra = nth - Block(plan.grid, z).fixed;
            memset(chunk, 0, bytes);
            Stream streams[STREAMS];
            streams_of(plan, z, nth, streams);
            for (i64 m = 0; m < TILES; m++) {
                for (i64 g = 0; g < TILE_STREAMS; g++) {
                    i64 s = TILE_STREAMS * m + g, size = stated_size(plan.grid.kind, bytes, m);
                    put_stream(chunk, streams[s], plan.grid.kind, m, g, starts[c * STREAMS + s], size);
                    if (kind == NESTED) put_planes(chunk, streams[s], m, g);
                }
                if (extra >= 0) put_list(chunk + header_bytes(plan.grid.kind), plan.queue(z, m), extra, m);
            }
        }
}
