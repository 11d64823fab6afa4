// SparTA: the 2:4 part of a matrix (two_four.h), and CSR of the rest.
#include "two_four.h"

using namespace lscd;

// rest [M, K]: `dense` without what lscd_two_four_pack keeps.
LSCD_EXPORT void lscd_sparta_rest(const u16* dense, i64 M, i64 K, u16* rest) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 m = 0; m < M; m++)
        for (i64 k = 0; k < K; k += CHUNK) {
            Chunk chunk(dense + m * K, k, K);
            Slots low(SLOTS[chunk.mask & 15]), high(SLOTS[chunk.mask >> 4]);
            u16 left[CHUNK];
            memcpy(left, chunk.weights, sizeof left);
            left[low.first] = left[low.second] = 0;
            left[4 + high.first] = left[4 + high.second] = 0;
            memcpy(rest + m * K + k, left, sizeof(u16) * min(CHUNK, K - k));
        }
}

// Problem by row of the rest: 1 an entry that is not right of a full 2:4 group's second non-zero.
LSCD_EXPORT void lscd_sparta_check(const u16* values, const u8* indices, const i32* row_ptr,
                                   const i32* col_idx, i64 M, i64 K, i64* found) {
    i64 groups = 2 * ceil_div(K, CHUNK);
    first_problem(M, M * K, found, [=](i64 m) {
        for (i64 at = row_ptr[m]; at < row_ptr[m + 1]; at++) {
            i64 column = col_idx[at], group = m * groups + column / 4;
            Slots slots(indices[group / 2] >> 4 * (group % 2) & 15);
            if (!values[2 * group] || !values[2 * group + 1] || column % 4 <= slots.second) return 1;
        }
        return 0;
    });
}
