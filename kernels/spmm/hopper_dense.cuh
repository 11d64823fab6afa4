// The slice of B that stays in shared memory, for the Hopper kernel.
//
//   [k][n], BLOCK_N columns wide; mma.sp needs it as [32 k][8 n], of which every fourth row is zeros:
//
//   row of mma.sp   0    1    2    3      4    5    6    7      8 ...
//   row of B        k    k+1  k+2  zeros  k+3  k+4  k+5  zeros  k+6 ...
//
// ldmatrix takes an address for each row, so the zeros are one row, whoever needs it.
#pragma once
#include "hopper_eights.cuh"

namespace lscd {

template <int BLOCK_N, int WARPS>
struct HopperDense {
    static constexpr int N_FRAGS = BLOCK_N / 8, ROW_BYTES = BLOCK_N * 2, STEP_COLS = CHUNK_COLS / 2;

    const HopperProblem& p;
    Address memory;  // of the block
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Row k: its eights of columns are exchanged, so that no eight rows that ldmatrix reads at once
    // meet in a bank. An eight `frag` further on is at this address ^ frag * 16.
    __device__ static uint32_t row(int k) {
        constexpr int SHIFT = BLOCK_N == 16 ? 2 : BLOCK_N == 32 ? 1 : 0;
        return k * ROW_BYTES + (k >> SHIFT & N_FRAGS - 1) * 16;
    }

    // Under way at once: all, where N is at most 16 and a slice has 2400 columns; more would spill.
    static constexpr int AT_ONCE = N_FRAGS == 2 ? 10 : 5;
    using Eights = DenseEights<AT_ONCE>;

    // ld_dense: columns [k0, end) of A's slice, columns of B from n0 on. A warp takes pieces of 32 k x
    // 8 n: lane (n, t) loads k = 8t to 8t + 7. Several pieces are under way at once, and the first ones are
    // known already; `meanwhile` is called while these are.
    template <class Meanwhile>
    __device__ void ld_dense(const Eights& known, int k0, int end, int n0, Meanwhile meanwhile) const {
        uint4 eights[AT_ONCE];
        known.load(eights);
        meanwhile();
        transpose(eights, warp);
        for (int first = warp + AT_ONCE * WARPS; first < pieces(); first += AT_ONCE * WARPS) {
            pieces_from(first, k0, end, n0).load(eights);
            transpose(eights, first);
        }
    }
    __device__ int pieces() const { return dense_rows(p) / 32 * N_FRAGS; }
    __device__ Eights pieces_from(int first, int k0, int end, int n0) const {
        return Eights(p, end, [&](int j) {
            int i = first + j * WARPS, k = i / N_FRAGS * 32 + lane % 4 * 8;
            return int2{n0 + i % N_FRAGS * 8 + lane / 4, i < pieces() ? k0 + k : end};
        });
    }
    __device__ void transpose(const uint4 (&eights)[AT_ONCE], int first) const {
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int i = first + j * WARPS, k = i / N_FRAGS * 32 + transposed_row(lane);
            if (i < pieces()) stmatrix_x4_trans((memory + DENSE + row(k)) ^ i % N_FRAGS * 16, eights[j]);
        }
    }

    // The row that a lane addresses for ldmatrix in the first step of a chunk, and bytes from there to
    // the second, or to the next chunk's.
    struct Rows {
        Address first;
        uint32_t step;

        __device__ Address of(int step) const { return first + step * this->step; }
        __device__ void advance() { first += 2 * step; }
    };
    // For the nth chunk of a block: `regular` ones of 48 columns each, then those of level 1, whose rows are
    // three apart. Steps are multiples of eight rows, so that a lane's exchange of eights stays. Rows of
    // zeros are read in the banks that the other lanes leave. Computed anew each time: a warp's loop over
    // chunks leaves no registers to keep it in.
    __device__ Rows rows(int nth, int regular) const {
        int lane = anew(this->lane), matrix = lane / 8, j = lane % 8;
        bool zeros = j % 4 == 3, level = nth >= regular;
        int k = zeros ? 6 * matrix + 6 + j / 4 : 6 * matrix + j / 4 * 3 + j % 4;
        int apart = level ? LEVEL_STRIDE : 1;
        uint32_t first = row(level ? LEVEL_STRIDE * k + 1 : k), step = apart * STEP_COLS * ROW_BYTES;
        if (zeros) return {memory + first % ZERO_BYTES, 0};
        return {memory + DENSE + first + (level ? nth - regular : nth) * 2 * step, step};
    }

    // The same for a row of B that an extra chunk lists.
    __device__ Address listed(uint32_t k) const {
        return k == NOT_LISTED ? memory : memory + DENSE + row(k);
    }
};

}  // namespace lscd
