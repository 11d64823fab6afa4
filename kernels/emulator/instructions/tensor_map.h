// What common/tensor_map.cuh declares, for the emulator: tiles of a matrix, swizzled, with zeros outside.
#pragma once
#include "bulk_copy.h"

namespace lscd {

struct TensorMap {
    const uint16_t* matrix;
    int rows, cols, tile_rows;
    int64_t pitch;
};

inline cudaError_t make_tensor_map(TensorMap* map, Dtype, const void* matrix, int rows, int cols,
                                   int64_t pitch, int tile_rows) {
    bool aligned = reinterpret_cast<uint64_t>(matrix) % 16 == 0 && pitch % 8 == 0 && pitch >= cols;
    if (!aligned || rows < 1 || cols < 1 || tile_rows < 1 || tile_rows > 256) return cudaErrorInvalidValue;
    *map = {static_cast<const uint16_t*>(matrix), rows, cols, tile_rows, pitch};
    return cudaSuccess;
}

inline void tensor_copy(Address to, const TensorMap* map, int row, int col, Address barrier,
                        uint64_t /*policy*/, simt::Site site = simt::here()) {
    constexpr int ROW_BYTES = 2 * TENSOR_COLS, SWIZZLED_ROWS = 8;
    uint32_t bytes = uint32_t(map->tile_rows * ROW_BYTES);
    simt::BulkTarget target = simt::begin_bulk_copy(to, bytes, barrier, site);
    if (target.at % (ROW_BYTES * SWIZZLED_ROWS))
        simt::Block::current->fail(site, "a tensor copy" + simt::at_shared(target.at) + ": misaligned");
    std::vector<uint16_t> tile(bytes / 2);
    for (int r = 0; r < map->tile_rows && row + r < map->rows; r++) {
        int inside = min(TENSOR_COLS, map->cols - col);
        if (inside <= 0) continue;
        const uint16_t* from = map->matrix + (row + r) * map->pitch + col;
        simt::check_global("tensor copy", from, 2 * inside, 2, false, site);
        for (int c = 0; c < inside; c++)
            tile[size_t(r * TENSOR_COLS + ((c / 8 ^ r % SWIZZLED_ROWS) * 8 + c % 8))] = from[c];
    }
    target.take(tile.data(), bytes);
    // As one piece of global memory, zeros counted as well.
    simt::note({simt::Op::bulk_copy, site, {target.at, bytes}, {int64_t(map->matrix), bytes}});
}

}  // namespace lscd
