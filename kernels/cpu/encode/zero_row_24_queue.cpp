// Zero-row 2:4, pass one: which weights go to extra chunks (layout: zero_row_24.h).
#include <vector>

#include "zero_row_24.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

// What a tile of 16 rows of A (fewer at its end) has from `origin` on, in `cols` columns.
struct Found {
    std::vector<u32> full;  // by group: rows that have three weights there
    i64 nnz = 0;

    Found(const u16* origin, i64 K, i64 rows, i64 cols) : full(ceil_div(cols, 3 * COLS) * COLS) {
        for (i64 c = 0; c < cols; c += COLS)
            for (i64 r = 0; r < rows; r++) {
                u64 nonzero = nonzero_mask(origin + r * K + c, min(COLS, cols - c));
                nnz += __builtin_popcountll(nonzero);
                for_each_bit(full_groups(nonzero),
                             [&](i64 bit) { full[(c + bit) / 3] |= 1u << r; });
            }
    }
    // Rows that are full in group i, or in group i of level 1: in three in a row.
    u32 rows(i64 i, i64 levels) const {
        return levels ? full[3 * i] & full[3 * i + 1] & full[3 * i + 2] : full[i];
    }
    // The middle columns of these groups, left to right; then thirds again, where a row is full.
    void fill(Queue& queue, i64 levels) const {
        i64 width = levels ? 9 : 3;
        for (i64 i = 0; i < i64(full.size()) * 3 / width; i++)
            if (u32 mask = rows(i, levels)) queue.push(u32(i * width + width / 2), mask);
        for (i64 group = 0; 3 * group < queue.length; group++)
            if (u32 mask = queue.full(group)) queue.push(queue.column(3 * group + 2), mask);
    }
};

}  // namespace

// queues [blocks][4][slice_cols / 2], of which queued [blocks][4] words are filled; nnz
// [blocks][4]: of each 16 rows of a slice. nonfinite [1]: 1 if a weight has all bits of `exponent`.
LSCD_EXPORT void lscd_zero_row_24_queue(const u16* dense, i64 M, i64 K, i64 slice_cols,
                                        i64 levels, i64 exponent, u32* queues, i32* queued,
                                        i32* nnz, i32* nonfinite) {
    Grid grid{M, K, slice_cols, levels};
    bool any = false;
#pragma omp parallel for schedule(static) reduction(|| : any) if (large(M * K))
    for (i64 tile = 0; tile < grid.blocks() * TILES; tile++) {
        Block block(grid, tile / TILES);
        i64 row = block.row + tile % TILES * TILE_ROWS, rows = min(TILE_ROWS, M - row);
        const u16* origin = dense + row * K + block.col;
        Queue queue{queues + tile * queue_capacity(slice_cols), 0};
        Found found(origin, K, rows, block.cols);
        found.fill(queue, levels);
        nnz[tile] = i32(found.nnz);
        queued[tile] = i32(queue.length);
        for (i64 r = 0; r < rows && !any; r++)
            any = any_nonfinite(origin + r * K, block.cols, u16(exponent));
    }
    *nonfinite = any;
}
