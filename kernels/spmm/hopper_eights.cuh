// B's way into shared memory, where its rows become columns: eights of a column, for stmatrix.
#pragma once
#include "hopper.cuh"

namespace lscd {

// COUNT eights of rows of a column of B, STEP rows apart; zeros from row `end` on, and beyond B's columns. Whole
// ones are loaded by predicates, since branches would take as long as the loads. Plain loads: the compiler may
// move __ldg to before the wait for the grid before, when B is not yet there.
template <int COUNT, int STEP>
struct DenseEights {
    static_assert(STEP % 8 == 0);
    const uint16_t* from;  // the first one
    int inside;            // rows from there to the end

    __device__ DenseEights(const Problem& p, int column, int row, int end)
        : from(static_cast<const uint16_t*>(p.B) + (column * p.ldb + row)),
          inside(column < p.N ? end - row : 0) {}
    __device__ void advance() { from += COUNT * STEP, inside -= COUNT * STEP; }

    __device__ void load(uint4 (&eights)[COUNT]) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            eights[i] = {0, 0, 0, 0};
            if (inside >= i * STEP + 8) eights[i] = ld_global(reinterpret_cast<const uint4*>(from + i * STEP));
        }
        int last = inside / STEP, rest = inside % STEP;
        if (inside <= 0 || last >= COUNT || rest == 0 || rest >= 8) return;
        uint4 cut = fewer(from + last * STEP, rest);
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (i == last) eights[i] = cut;
    }
    // One that is cut off.
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
