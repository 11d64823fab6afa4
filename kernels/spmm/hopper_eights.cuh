// B's way into shared memory, where its rows become columns: eights of a column each, for stmatrix.
#pragma once
#include "hopper.cuh"

namespace lscd {

// Eights of rows of B, of one column each; zeros from row `end` on, and beyond B's columns. Whole ones are
// loaded by predicates, since branches would take as long as the loads; and it is known where they are, if a
// caller makes this before it waits for the grid before. Plain loads: the compiler may move __ldg to before
// that wait, when B is not yet there.
template <int COUNT>
struct DenseEights {
    const uint16_t* B;
    int64_t from[COUNT];
    int inside[COUNT];  // of the eight
    bool cut;           // whether one of them may be cut off

    // place(i): column and first row.
    template <class Place>
    __device__ __forceinline__ DenseEights(const Problem& p, int end, Place place)
        : B(static_cast<const uint16_t*>(p.B)), cut(end % 8) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int2 at = place(i);
            from[i] = anew(at.x * p.ldb + at.y), inside[i] = anew(at.x < p.N ? end - at.y : 0);
        }
    }
    __device__ __forceinline__ void load(uint4 (&eights)[COUNT]) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            eights[i] = {0, 0, 0, 0};
            if (inside[i] >= 8) eights[i] = ld_global(reinterpret_cast<const uint4*>(B + from[i]));
        }
        if (!cut) return;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (inside[i] > 0 && inside[i] < 8) eights[i] = fewer(B + from[i], inside[i]);
    }
    __device__ static uint4 fewer(const uint16_t* from, int count) {
        uint64_t low = 0, high = 0;
#pragma unroll 1
        for (int i = count - 1; i >= 0; i--) {
            high = high << 16 | low >> 48;
            low = low << 16 | ld_global(from + i);
        }
        return {uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)};
    }
};

// Where stmatrix puts such eights of 32 k x 8 n, of which lane (n, t) has k = 8 t to 8 t + 7: its pair i is in
// matrix i, whose row 2 t + b is k = 8 t + 2 i + b. The row k that a lane gives the address of.
__device__ inline int transposed_row(int lane) { return lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2; }

}  // namespace lscd
