// Zero-row 2:4, passes two and three: what goes to level 1, where each stream begins in its chunk (layout:
// zero_row_24.h).
#include "zero_row_24_load.h"
#include "zero_row_24_placement.h"

using namespace lscd;
using namespace lscd::zero_row_24;

// sent [blocks][columns of a slice / 48][32]: of stream (tile, g) of a regular chunk of pairs, what goes to level 1
// (zero_row_24_sent.h).
LSCD_EXPORT void lscd_zero_row_24_send(const u16* dense, i64 M, i64 K, i64 slice_cols, u32* sent) {
    Plan plan{{M, K, slice_cols, 1, PAIRS}, dense, nullptr, nullptr, nullptr, {nullptr}};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 z = 0; z < plan.grid.blocks(); z++)
        for (i64 nth = 0; nth < Block(plan.grid, z).regular; nth++) {
            Tiles tiles(plan, z, nth);
            for (i64 m = 0; m < TILES; m++)
                Sent{sent}.find(tiles.tile[0][m], sending(plan.grid, z, nth), m, phase_of(nth));
        }
}

// starts [chunks][32]: of stream (tile, g), in bytes from the start of its chunk; sizes [chunks]:
// in units of 16 bytes.
LSCD_EXPORT void lscd_zero_row_24_place(const u16* dense, i64 M, i64 K, i64 slice_cols, i64 levels,
                                        i64 kind, u32* queues, const i32* queued,
                                        const i32* first_chunk, i64 /*chunks*/, u32* sent, i64 reach,
                                        u16* starts, i32* sizes) {
    Plan plan{{M, K, slice_cols, levels, Kind(kind)}, dense, queues, queued, first_chunk, {sent}};
#pragma omp parallel for schedule(dynamic) if (large(M * K))
    for (i64 z = 0; z < plan.grid.blocks(); z++)
        for (i64 chunk = first_chunk[z]; chunk < first_chunk[z + 1]; chunk++) {
            i64 nth = chunk - first_chunk[z];
            Stream streams[STREAMS];
            streams_of(plan, z, nth, streams);
            Block block(plan.grid, z);
            i64 first = values_at(Kind(kind), nth >= block.fixed, block.pieces(nth));
            Placement placement(streams, Kind(kind), first);
            // Words skip padding alone, since bytes bind; two loads a group are more than bytes take on an H200.
            i64 padded = chunk_bytes(Kind(kind), placement.least_end());
            placement.place(reach, kind == PACKED ? most_bytes(PACKED) : padded);
            memcpy(starts + chunk * STREAMS, placement.start, sizeof placement.start);
            sizes[chunk] = i32(chunk_bytes(Kind(kind), placement.end) / START_BYTES);
        }
}
