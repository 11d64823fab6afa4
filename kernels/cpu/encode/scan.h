// What the encoders share: finding non-zeros many at a time, and reporting what a check found.
#pragma once
#include <climits>

#include "../common.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace lscd {

// Bit i is set where weights[i] is non-zero, that is, where its bits are not +0; i < 8.
inline u64 nonzero8(const u16* weights) {
#ifdef __SSE2__
    __m128i zero = _mm_setzero_si128();
    __m128i is_zero = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i*)weights), zero);
    return 0xff & ~_mm_movemask_epi8(_mm_packs_epi16(is_zero, zero));
#else
    u64 mask = 0;
    for (int i = 0; i < 8; i++) mask |= u64(weights[i] != 0) << i;
    return mask;
#endif
}

// The same for n <= 64 weights; the other bits are 0.
inline u64 nonzero_mask(const u16* weights, i64 n) {
    u64 mask = 0;
    i64 i = 0;
    for (; i + 8 <= n; i += 8) mask |= nonzero8(weights + i) << i;
    for (; i < n; i++) mask |= u64(weights[i] != 0) << i;
    return mask;
}

template <class Visit>
inline void for_each_bit(u64 bits, Visit visit) {
    for (; bits; bits &= bits - 1) visit(i64(__builtin_ctzll(bits)));
}

// Calls visit(column) for every non-zero of a row of K weights, left to right.
template <class Visit>
inline void for_each_nonzero(const u16* row, i64 K, Visit visit) {
    for (i64 k = 0; k < K; k += 64)
        for_each_bit(nonzero_mask(row + k, min(64, K - k)), [&](i64 bit) { visit(k + bit); });
}

inline bool any_zero(const u16* weights, i64 n) {
    bool found = false;
    for (i64 i = 0; i < n; i++) found |= weights[i] == 0;
    return found;
}

inline bool any_nonzero(const u16* weights, i64 n) {
    bool found = false;
    for (i64 i = 0; i < n; i++) found |= weights[i] != 0;
    return found;
}

// Whether a weight has all bits of `exponent`: of those that are infinite or NaN.
inline bool any_nonfinite(const u16* weights, i64 n, u16 exponent) {
    bool found = false;
    for (i64 i = 0; i < n; i++) found |= (weights[i] & exponent) == exponent;
    return found;
}

// Whether a pass over so many weights is worth waking other threads.
inline bool large(i64 weights) { return weights > 1 << 16; }

// Runs check(i) for i < n; it returns 0 for "sound", or the number (1 to 15) of a problem.
// found: 16 * i + problem of the first i that has one, LLONG_MAX if none has. Reads about `weights`.
template <class Check>
void first_problem(i64 n, i64 weights, i64* found, Check check) {
    i64 first = LLONG_MAX;
#pragma omp parallel for schedule(static) reduction(min : first) if (large(weights))
    for (i64 i = 0; i < n; i++)
        if (i64 problem = check(i)) first = min(first, 16 * i + problem);
    *found = first;
}

}  // namespace lscd
