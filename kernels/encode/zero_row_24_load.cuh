// Zero-row 2:4 on the GPU: the weights of a chunk of 64 rows are loaded, and become streams.
#pragma once
#include "zero_row_24.cuh"
#include "zero_row_24_writer.cuh"

namespace lscd::zero_row_24 {

template <Kind KIND>
__device__ void load_extra(const TilesOf<KIND>& tiles, const Plan& plan, const Place& place) {
    constexpr int EACH = piece_cols(KIND);
    for (int i = lane_id(); i < TILES * EACH; i += LANES) {
        int m = i / EACH, col = column_by_groups(KIND, i % EACH);
        Queue queue = plan.queue(place.z, m);
        int at = queue.word_of(place.nth - place.block.fixed, i % EACH);
        uint32_t rows = queue.taken(at);
        int64_t k = place.block.col + queue.column(at);
        for (int r = 0; r < TILE_ROWS; r++) {
            int row = m * TILE_ROWS + r;
            tiles.put(row, col, rows >> r & 1 ? plan.dense.load(place.block.row + row, k) : 0);
        }
    }
    __syncwarp();
}

// Of a chunk of level 1: column i is group i of three regular ones.
__device__ inline void load_sent(const Tiles& tiles, const Plan& plan, const Place& place) {
    const Block& block = place.block;
    int level = place.nth - block.regular;
    int64_t k = block.col + block.column(place.nth, 0);
#pragma unroll 4
    for (int i = lane_id(); i < ROWS * COLS; i += LANES) {
        int row = i / COLS, col = i % COLS, nth = 3 * level + col / GROUPS;
        bool here = nth < block.regular && plan.sent.from(sending(plan.grid, place.z, nth), row / TILE_ROWS,
                                                          row % TILE_ROWS, col % GROUPS);
        tiles.put(row, col, here ? plan.dense.load(block.row + row, k + 3 * col) : 0);
    }
    __syncwarp();
}

template <Kind KIND>
__device__ void load(const TilesOf<KIND>& tiles, const Plan& plan, const Place& place, int piece) {
    if (place.extra) return load_extra<KIND>(tiles, plan, place);
    const Block& block = place.block;
    bool level = KIND != NESTED && place.nth >= block.regular, sends = KIND == PAIRS && plan.sent.words;
    int64_t row = block.row, k = block.col + block.column(place.nth, piece * COLS);
    if constexpr (KIND == PAIRS)
        if (level && sends) return load_sent(tiles, plan, place);
    if (level) return tiles.load_middles(plan.dense, row, k, block.col + block.cols);
    tiles.load(plan.dense, row, TILE_ROWS, k, 0);
    if constexpr (KIND == PAIRS)
        if (sends) plan.sent.take(tiles, sending(plan.grid, place.z, place.nth));
}

// The streams of a chunk, piece after piece: metadata, values to put(value).
template <Kind KIND, class Put>
__device__ void write(Shared<uint32_t> metadata, Put put, const TilesOf<KIND>& tiles, const Plan& plan,
                      const Place& place) {
    if constexpr (KIND == NESTED) {
        load<KIND>(tiles, plan, place, 0);
        write_nested(metadata, put, tiles, place.extra ? 0 : sent_of(tiles, Inside()));
    } else {
        Writer<KIND, Put, Middle> writer(metadata, put, Middle());
#pragma unroll 1
        for (int piece = 0; piece < (pieces_of(KIND) > 1 ? place.pieces : 1); piece++) {
            if (piece) __syncwarp();  // all lanes have read the one before
            load<KIND>(tiles, plan, place, piece);
            writer.add(tiles, piece);
        }
        writer.finish();
    }
}

}  // namespace lscd::zero_row_24
