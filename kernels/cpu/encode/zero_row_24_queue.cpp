// Zero-row 2:4, pass one: which weights go to extra chunks (layout: zero_row_24.h).
#include <vector>

#include "zero_row_24.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

// What a tile of 16 rows of A (fewer at its end) has from `origin` on, in `cols` columns.
struct Found {
    std::vector<u32> rows;  // by column: those that have a weight there; of groups, those that begin a full one
    i64 nnz = 0;

    Found(const u16* origin, i64 K, i64 height, i64 cols, Kind kind)
        : rows(ceil_div(cols, 3 * COLS) * 3 * COLS) {
        for (i64 c = 0; c < cols; c += COLS)
            for (i64 r = 0; r < height; r++) {
                u64 nonzero = nonzero_mask(origin + r * K + c, min(COLS, cols - c));
                nnz += __builtin_popcountll(nonzero);
                for_each_bit(kind == SIXES ? nonzero : full_groups(nonzero),
                             [&](i64 bit) { rows[c + bit] |= 1u << r; });
            }
    }
    // Of nested chunks the middle column of three full groups that are one of level 1, which has two slots.
    void fill_nested(Queue& queue) const {
        for (i64 c = 0; c < i64(rows.size()); c += NESTED_COLS)
            for (i64 j = 0; j < NESTED_GROUPS / 3; j++) {
                auto column = [&](i64 step) { return c + nested_column(3 * (8 * step + j)); };
                u32 mask = rows[column(0)] & rows[column(1)] & rows[column(2)];
                if (mask) queue.push(u32(column(1) + 1), mask);
            }
        fill_thirds(queue);
    }
    // The middle columns of full groups, or of three in a row of these, which are a full one of level 1, left to
    // right; then thirds again, where a row is full.
    void fill_groups(Queue& queue, i64 levels) const {
        i64 width = levels ? 9 : 3;
        for (i64 c = 0; c < i64(rows.size()); c += width) {
            u32 mask = levels ? rows[c] & rows[c + 3] & rows[c + 6] : rows[c];
            if (mask) queue.push(u32(c + width / 2), mask);
        }
        fill_thirds(queue);
    }
    static void fill_thirds(Queue& queue) {
        for (i64 group = 0; 3 * group < queue.length; group++)
            if (u32 mask = queue.full(group)) queue.push(queue.column(3 * group + 2), mask);
    }
    // What stands between the first and the last weight of sixes, one six after another; the same of those
    // words, until there are no more.
    void fill_sixes(Queue& queue) const {
        for (i64 c = 0; c < i64(rows.size()); c += COLS)
            for (i64 six = 0; six < COLS / SIX; six++)
                for (i64 i = 0; i < SIX; i++) {
                    i64 column = c + column_of_six(six, i);
                    u32 mask = between(i, [&](i64 k) { return rows[c + column_of_six(six, k)]; });
                    if (mask) queue.push(u32(column), mask);
                }
        for (i64 done = 0; done < queue.length;) {
            while (queue.length % SIX) queue.push(NOTHING, 0);
            for (i64 end = queue.length; done < end; done++)
                if (u32 mask = queue.waiting(done)) queue.push(queue.column(done), mask);
        }
    }
};

}  // namespace

// queues [blocks][4][capacity], of which queued [blocks][4] words are filled; nnz
// [blocks][4]: of each 16 rows of a slice. nonfinite [1]: 1 if a weight has all bits of `exponent`.
LSCD_EXPORT void lscd_zero_row_24_queue(const u16* dense, i64 M, i64 K, i64 slice_cols,
                                        i64 levels, i64 kind, i64 exponent, u32* queues,
                                        i32* queued, i32* nnz, i32* nonfinite) {
    Grid grid{M, K, slice_cols, levels, Kind(kind)};
    bool any = false;
#pragma omp parallel for schedule(static) reduction(|| : any) if (large(M * K))
    for (i64 tile = 0; tile < grid.blocks() * TILES; tile++) {
        Block block(grid, tile / TILES);
        i64 row = block.row + tile % TILES * TILE_ROWS, rows = min(TILE_ROWS, M - row);
        const u16* origin = dense + row * K + block.col;
        Queue queue{queues + tile * queue_capacity(slice_cols, Kind(kind)), Kind(kind), 0};
        Found found(origin, K, rows, block.cols, Kind(kind));
        if (kind == SIXES) found.fill_sixes(queue);
        else if (kind == NESTED) found.fill_nested(queue);
        else found.fill_groups(queue, levels);
        nnz[tile] = i32(found.nnz);
        queued[tile] = i32(queue.length);
        for (i64 r = 0; r < rows && !any; r++)
            any = any_nonfinite(origin + r * K, block.cols, u16(exponent));
    }
    *nonfinite = any;
}
