// Zero-row 2:4, pass one: which weights go to extra chunks (layout: zero_row_24.h).
#include "zero_row_24.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

// The middle columns of a tile of 16 rows of A (fewer at its end), from `origin` on, left to right.
// Returns the number of non-zeros.
i64 collect(const u16* origin, i64 K, i64 rows, i64 cols, Queue& queue) {
    i64 nnz = 0;
    for (i64 c = 0; c < cols; c += COLS) {
        u32 full[GROUPS] = {};
        for (i64 r = 0; r < rows; r++) {
            u64 nonzero = nonzero_mask(origin + r * K + c, min(COLS, cols - c));
            nnz += __builtin_popcountll(nonzero);
            for_each_bit(full_groups(nonzero), [&](i64 bit) { full[bit / 3] |= 1u << r; });
        }
        for (i64 group = 0; group < GROUPS; group++)
            if (full[group]) queue.push(u32(c + 3 * group + 1), full[group]);
    }
    return nnz;
}

}  // namespace

// queues [blocks][4][slice_cols / 2], of which queued [blocks][4] words are filled; nnz
// [blocks][4]: of each 16 rows of a slice. nonfinite [1]: 1 if a weight has all bits of `exponent`.
LSCD_EXPORT void lscd_zero_row_24_queue(const u16* dense, i64 M, i64 K, i64 slice_cols,
                                        i64 exponent, u32* queues, i32* queued, i32* nnz,
                                        i32* nonfinite) {
    Grid grid{M, K, slice_cols};
    bool any = false;
#pragma omp parallel for schedule(static) reduction(|| : any) if (large(M * K))
    for (i64 tile = 0; tile < grid.blocks() * TILES; tile++) {
        Block block(grid, tile / TILES);
        i64 row = block.row + tile % TILES * TILE_ROWS, rows = min(TILE_ROWS, M - row);
        const u16* origin = dense + row * K + block.col;
        Queue queue{queues + tile * queue_capacity(slice_cols), 0};
        nnz[tile] = rows > 0 ? i32(collect(origin, K, rows, block.cols, queue)) : 0;
        for (i64 group = 0; 3 * group < queue.length; group++)
            if (u32 full = queue.full(group)) queue.push(queue.column(3 * group + 2), full);
        queued[tile] = i32(queue.length);
        for (i64 r = 0; r < rows && !any; r++)
            any = any_nonfinite(origin + r * K, block.cols, u16(exponent));
    }
    *nonfinite = any;
}
