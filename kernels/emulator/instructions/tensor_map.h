// What common/tensor_map.cuh declares, for the emulator: tiles of a matrix, swizzled, with zeros outside.
#pragma once
#include "bulk_copy.h"

namespace lscd {

struct TensorMap {
    const uint16_t* matrix;
    int rows, cols, tile_rows, tile_blocks;
    int64_t pitch;
};

inline cudaError_t make_tensor_map(TensorMap* map, Dtype, const void* matrix, int rows, int cols,
                                   int64_t pitch, int tile_rows, int tile_blocks = 1) {
    bool aligned = reinterpret_cast<uint64_t>(matrix) % 16 == 0 && pitch % 8 == 0 && pitch >= cols;
    auto sized = [](int box) { return 1 <= box && box <= 256; };
    bool valid = aligned && rows >= 1 && cols >= 1 && sized(tile_rows) && sized(tile_blocks);
    if (!valid) return cudaErrorInvalidValue;
    *map = {static_cast<const uint16_t*>(matrix), rows, cols, tile_rows, tile_blocks, pitch};
    return cudaSuccess;
}
inline cudaError_t make_blocks_map(TensorMap* map, Dtype dtype, const void* matrix, int rows, int blocks,
                                   int64_t pitch, int tile_rows, int tile_blocks) {
    return make_tensor_map(map, dtype, matrix, rows, blocks * TENSOR_COLS, pitch, tile_rows, tile_blocks);
}

inline void tensor_copy(Address to, const TensorMap* map, int row, int col, Address barrier,
                        uint64_t /*policy*/, simt::Site site = simt::here()) {
    constexpr int ROW_BYTES = 2 * TENSOR_COLS, SWIZZLED_ROWS = 8;
    int lines = map->tile_blocks * map->tile_rows;  // of the tile
    uint32_t bytes = uint32_t(lines * ROW_BYTES);
    simt::BulkTarget target = simt::begin_bulk_copy(to, bytes, barrier, site);
    if (target.at % (ROW_BYTES * SWIZZLED_ROWS))
        simt::Block::current->fail(site, "a tensor copy" + simt::at_shared(target.at) + ": misaligned");
    std::vector<uint16_t> tile(bytes / 2);
    for (int line = 0; line < lines; line++) {
        int r = row + line % map->tile_rows, first = col + line / map->tile_rows * TENSOR_COLS;
        int inside = min(TENSOR_COLS, map->cols - first);
        if (inside <= 0 || r >= map->rows) continue;
        const uint16_t* from = map->matrix + r * map->pitch + first;
        simt::check_global("tensor copy", from, 2 * inside, 2, false, site);
        for (int c = 0; c < inside; c++)
            tile[size_t(line * TENSOR_COLS + ((c / 8 ^ line % SWIZZLED_ROWS) * 8 + c % 8))] = from[c];
    }
    target.take(tile.data(), bytes);
    // As one piece of global memory, zeros counted as well.
    simt::note({simt::Op::bulk_copy, site, {target.at, bytes}, {int64_t(map->matrix), bytes}});
}
inline void tensor_copy_blocks(Address to, const TensorMap* map, int row, int block, Address barrier,
                               uint64_t policy, simt::Site site = simt::here()) {
    tensor_copy(to, map, row, block * TENSOR_COLS, barrier, policy, site);
}

}  // namespace lscd
