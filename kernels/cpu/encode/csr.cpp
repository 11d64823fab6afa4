// CSR: the non-zeros of each row, left to right, with their columns.
#include "scan.h"

using namespace lscd;

// counts [M]: pass one.
LSCD_EXPORT void lscd_csr_count(const u16* dense, i64 M, i64 K, i32* counts) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 m = 0; m < M; m++) {
        i64 count = 0;
        for (i64 k = 0; k < K; k += 64)
            count += __builtin_popcountll(nonzero_mask(dense + m * K + k, min(64, K - k)));
        counts[m] = i32(count);
    }
}

// col_idx and values [row_ptr[M]]: pass two.
LSCD_EXPORT void lscd_csr_pack(const u16* dense, i64 M, i64 K, const i32* row_ptr, i32* col_idx,
                               u16* values) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 m = 0; m < M; m++) {
        const u16* row = dense + m * K;
        i64 at = row_ptr[m];
        for_each_nonzero(row, K, [&](i64 k) {
            col_idx[at] = i32(k);
            values[at++] = row[k];
        });
    }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_csr_unpack(const i32* row_ptr, const i32* col_idx, const u16* values, i64 M,
                                 i64 K, u16* dense) {
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 m = 0; m < M; m++)
        for (i64 at = row_ptr[m]; at < row_ptr[m + 1]; at++) dense[m * K + col_idx[at]] = values[at];
}

// Problem by row: 1 row_ptr, 2 columns out of range, 3 columns not increasing, 4 a stored +0.
LSCD_EXPORT void lscd_csr_check(const i32* row_ptr, const i32* col_idx, const u16* values, i64 M,
                                i64 K, i64 nnz, i64* found) {
    first_problem(M, nnz, found, [=](i64 m) {
        i64 start = row_ptr[m], end = row_ptr[m + 1];
        if (start < 0 || end < start || end > nnz) return 1;
        if (start == end) return 0;
        bool falls = false;
        for (i64 at = start + 1; at < end; at++) falls |= col_idx[at] <= col_idx[at - 1];
        if (col_idx[start] < 0 || col_idx[end - 1] >= K) return 2;
        if (falls) return 3;
        return any_zero(values + start, end - start) ? 4 : 0;
    });
}
