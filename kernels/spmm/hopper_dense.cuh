// The slice of B that stays in shared memory, for the Hopper kernel.
//
//   [k][n], BLOCK_N columns wide; mma.sp needs it as [32 k][8 n], of which every fourth row is zeros:
//
//   row of mma.sp   0    1    2    3      4    5    6    7      8 ...
//   row of B        k    k+1  k+2  zeros  k+3  k+4  k+5  zeros  k+6 ...
//
// ldmatrix takes an address for each row, so the zeros are one row, in front of row 0, whoever needs it.
//
// For nested chunks, whose steps have every third two groups of three and level 1 every third row of these, each eight
// columns stand by themselves, 16 bytes a row, behind zeros of their own: then what ldmatrix reads at once is in
// different banks for all steps.
#pragma once
#include "hopper_eights.cuh"

namespace lscd {

template <int BLOCK_N, int WARPS, bool BY_EIGHTS>
struct HopperDense {
    static constexpr int N_FRAGS = BLOCK_N / 8, ROW_BYTES = BY_EIGHTS ? 16 : BLOCK_N * 2, STEP_COLS = PIECE_COLS / 2;

    const HopperProblem& p;
    Address memory;  // of the block
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Row k: its eights of columns are exchanged, so that no eight rows that ldmatrix reads at once
    // meet in a bank, or stand by themselves.
    __host__ __device__ static constexpr uint32_t row(int k) {
        if (BY_EIGHTS) return k * ROW_BYTES;
        constexpr int SHIFT = BLOCK_N == 16 ? 2 : BLOCK_N == 32 ? 1 : 0;
        return k * ROW_BYTES + (k >> SHIFT & (N_FRAGS - 1)) * 16;
    }

    // Of a row in the first eight columns, where it is in those `frag` eights further on.
    __device__ Address eight(Address row, int frag) const {
        if (BY_EIGHTS) return frag ? row + frag * (dense_rows(p) * ROW_BYTES + ZERO_BYTES) : row;
        return row ^ frag * 16;
    }

    // A warp takes pieces of 32 k x 8 n, all of the same columns: lane (n, t) loads k = 8t to 8t + 7. Under way at
    // once: all, where N is at most 16 and a slice has 2400 columns; more would spill.
    static constexpr int AT_ONCE = N_FRAGS == 2 ? 10 : 5, STEP = WARPS / N_FRAGS * 32;  // from piece to piece
    static_assert(WARPS % N_FRAGS == 0 && row(STEP) == STEP * ROW_BYTES);
    using Eights = DenseEights<AT_ONCE, STEP>;
    int frag = warp % N_FRAGS, first = warp / N_FRAGS * 32;

    // Of columns [k0, end) of A's slice, columns of B from n0 on: the warp's first pieces.
    __device__ Eights eights(int k0, int end, int n0) const {
        return Eights(p, n0 + frag * 8 + lane / 4, k0 + first + lane % 4 * 8, end);
    }
    // ld_dense: several pieces are under way at once; `meanwhile` is called while the first ones are.
    template <class Meanwhile>
    __device__ void ld_dense(Eights from, Meanwhile meanwhile) const {
        uint4 eights[AT_ONCE];
        from.load(eights);
        meanwhile();
        Address to = eight(memory + DENSE + row(first + transposed_row(lane)), frag);
        int left = dense_rows(p) - first;
        transpose(eights, to, left);
        while ((left -= AT_ONCE * STEP) > 0) {
            from.advance(), to += AT_ONCE * STEP * ROW_BYTES;
            from.load(eights);
            transpose(eights, to, left);
        }
    }
    __device__ static void transpose(const uint4 (&eights)[AT_ONCE], Address to, int left) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (i * STEP < left) stmatrix_x4_trans(to + i * STEP * ROW_BYTES, eights[i]);
    }

    __device__ void clear_zeros() const {
#pragma unroll
        for (int frag = 0; frag < (BY_EIGHTS ? N_FRAGS : 1); frag++)
            if (threadIdx.x < ZERO_BYTES / 4) st_shared(eight(memory + ZEROS + 4 * threadIdx.x, frag), 0);
    }

    // The row that a lane addresses for ldmatrix in the first step of a piece, and bytes from there to
    // the second, or to the next piece's.
    struct PieceRows {
        Address first;
        uint32_t step;

        __device__ Address of(int /*piece*/, int step) const { return first + step * this->step; }
        __device__ void advance(int /*piece*/) { first += 2 * step; }
    };
    // The same in step 0 of a nested chunk and in level 1, and bytes to the next chunk's.
    struct NestedRows {
        Address first, level;
        uint32_t next;

        __device__ Address of(int half, int step) const {
            return half && step ? level : first + (2 * half + step) * NESTED_STEP * ROW_BYTES;
        }
        __device__ void advance(int half) {
            if (half) first += next, level += next;
        }
    };
    using Rows = std::conditional_t<BY_EIGHTS, NestedRows, PieceRows>;
    static constexpr int NESTED_STEP = 6;  // columns from a group of a step to that of the next one

    // Group j = 2 m + e of step s begins with column 18 m + 6 s + 3 e of its chunk (zero_row_24_nested.h).
    __device__ NestedRows nested_rows(int nth) const {
        int lane = anew(this->lane), m = lane / 8, e = lane % 8 / 4, i = lane % 4;
        bool zeros = i == 3;
        uint32_t first = row(18 * m + (zeros ? 6 + e : 3 * e + i));
        uint32_t level = row(18 * m + 3 * e + (zeros ? 3 : NESTED_STEP * i + 1));
        if (zeros) return {memory + ZEROS + first % ZERO_LINE, memory + ZEROS + level % ZERO_LINE, 0};
        Address begin = memory + DENSE + row(nth * NESTED_COLS);
        return {begin + first, begin + level, row(NESTED_COLS)};
    }
    // For the nth piece of a block: `regular` ones of 48 columns each, then those of level 1, whose rows are
    // three apart. Steps are multiples of eight rows, so that a lane's exchange of eights stays. Rows of
    // zeros are read in the banks that the other lanes leave. Computed anew each time: a warp's loop over
    // chunks leaves no registers to keep it in.
    __device__ PieceRows rows(int nth, int regular) const {
        int lane = anew(this->lane), matrix = lane / 8, j = lane % 8;
        bool zeros = j % 4 == 3, level = nth >= regular;
        int k = zeros ? 6 * matrix + 6 + j / 4 : 6 * matrix + j / 4 * 3 + j % 4;
        int apart = level ? LEVEL_STRIDE : 1;
        uint32_t first = row(level ? LEVEL_STRIDE * k + 1 : k), step = apart * STEP_COLS * ROW_BYTES;
        if (zeros) return {memory + ZEROS + first % ZERO_LINE, 0};
        return {memory + DENSE + first + (level ? nth - regular : nth) * 2 * step, step};
    }

    // A row of B that an extra chunk lists: how far behind the beginning of memory. No column is row -1: the last
    // eight columns of the row of zeros, which ends where row 0 begins, and those before them.
    __device__ static uint32_t listed(int32_t k) { return DENSE + row(k); }
    static_assert(row(-1) == uint32_t(-16) && N_FRAGS * 16 <= ZERO_LINE && ZEROS % ZERO_LINE == 0);
};

}  // namespace lscd
