// 2:4: the first two non-zeros of every group of four columns (drawing in two_four.h).
#include "two_four.h"

using namespace lscd;

namespace {

// Problem of a stored group whose first column is k: 0 if sound, else as lscd_two_four_check says.
inline int group_problem(const u16* values, u8 nibble, i64 k, i64 K) {
    Slots at(nibble);
    u64 present = u64(values[0] != 0) << at.first | u64(values[1] != 0) << at.second;
    if (SLOTS[present] != nibble) return 1;
    return (k + 4 > K && present >> (K > k ? K - k : 0)) ? 2 : 0;
}

}  // namespace

// found: the first group (row * ceil(K / 4) + group) with more than two non-zeros, else LLONG_MAX.
LSCD_EXPORT void lscd_two_four_overfull(const u16* dense, i64 M, i64 K, i64* found) {
    i64 first = LLONG_MAX, groups = ceil_div(K, 4);
#pragma omp parallel for schedule(static) reduction(min : first) if (large(M * K))
    for (i64 m = 0; m < M; m++)
        for (i64 k = 0; k < K; k += CHUNK) {
            u64 mask = Chunk(dense + m * K, k, K).mask;
            for (i64 half = 0; half < 2; half++)
                if (__builtin_popcountll(mask >> 4 * half & 15) > 2)
                    first = min(first, m * groups + k / 4 + half);
        }
    *found = first;
}

// values [M, 4 * chunks], indices [M, chunks]: the first two non-zeros of every group.
LSCD_EXPORT void lscd_two_four_pack(const u16* dense, i64 M, i64 K, u16* values, u8* indices) {
    i64 chunks = ceil_div(K, CHUNK);
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 m = 0; m < M; m++)
        for (i64 i = 0; i < chunks; i++) {
            Chunk chunk(dense + m * K, i * CHUNK, K);
            u8 low = SLOTS[chunk.mask & 15], high = SLOTS[chunk.mask >> 4];
            u16* out = values + 4 * (m * chunks + i);
            out[0] = chunk.weights[Slots(low).first];
            out[1] = chunk.weights[Slots(low).second];
            out[2] = chunk.weights[4 + Slots(high).first];
            out[3] = chunk.weights[4 + Slots(high).second];
            indices[m * chunks + i] = u8(low | high << 4);
        }
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_two_four_unpack(const u16* values, const u8* indices, i64 M, i64 K,
                                      u16* dense) {
    i64 groups = 2 * ceil_div(K, CHUNK);
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 m = 0; m < M; m++)
        for (i64 g = 0; g < groups; g++) {
            i64 group = m * groups + g;
            Slots at(indices[group / 2] >> 4 * (g % 2) & 15);
            u16* out = dense + m * K + 4 * g;
            if (values[2 * group]) out[at.first] = values[2 * group];
            if (values[2 * group + 1]) out[at.second] = values[2 * group + 1];
        }
}

// Problem by group (row * groups + group, groups = K / 4 rounded up to even): 1 indices that the
// encoder would not have written, 2 a non-zero right of column K.
LSCD_EXPORT void lscd_two_four_check(const u16* values, const u8* indices, i64 M, i64 K,
                                     i64* found) {
    i64 groups = 2 * ceil_div(K, CHUNK);
    first_problem(M * groups, M * K, found, [=](i64 group) {
        u8 nibble = indices[group / 2] >> 4 * (group % 2) & 15;
        return group_problem(values + 2 * group, nibble, group % groups * 4, K);
    });
}
