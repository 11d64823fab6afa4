// The slice of B that stays in shared memory, for the Hopper kernel.
//
//   [k][n], BLOCK_N columns wide; mma.sp needs it as [32 k][8 n], of which every fourth row is zeros:
//
//   row of mma.sp   0    1    2    3      4    5    6    7      8 ...
//   row of B        k    k+1  k+2  zeros  k+3  k+4  k+5  zeros  k+6 ...
//
// ldmatrix takes an address for each row, so the zeros are one row, whoever needs it.
#pragma once
#include "hopper.cuh"

namespace lscd {

template <class T, int BLOCK_N, int WARPS>
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

    // Eight halves of column n of B from k on; zeros outside. Plain loads: the compiler may move __ldg
    // to before wait_for_previous_grid, when B is not yet there.
    __device__ uint4 load(int n, int k, int end) const {
        if (n >= p.N || k >= end) return {0, 0, 0, 0};
        const T* from = static_cast<const T*>(p.B) + int64_t(n) * p.ldb + k;
        if (k + 8 <= end) return ld_global(reinterpret_cast<const uint4*>(from));
        uint64_t low = 0, high = 0;
#pragma unroll 1
        for (int i = end - k - 1; i >= 0; i--) {
            high = high << 16 | low >> 48;
            low = low << 16 | ld_global(reinterpret_cast<const uint16_t*>(from + i));
        }
        return {uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)};
    }

    // ld_dense: columns [k0, end) of A's slice, columns of B from n0 on. A warp takes pieces of 32 k x
    // 8 n: lane (n, t) loads k = 8t to 8t + 7. Its pair i is in matrix i of stmatrix, whose row 2t + b
    // is k = 8t + 2i + b. Several pieces are under way at once; `meanwhile` is called while the first
    // ones are.
    template <class Meanwhile>
    __device__ void ld_dense(int k0, int end, int n0, Meanwhile meanwhile) const {
        int pieces = dense_rows(p) / 32 * N_FRAGS;
        uint4 eights[AT_ONCE];
        gmem2reg(eights, warp, pieces, k0, end, n0);
        meanwhile();
        transpose(eights, warp, pieces);
        for (int first = warp + AT_ONCE * WARPS; first < pieces; first += AT_ONCE * WARPS) {
            gmem2reg(eights, first, pieces, k0, end, n0);
            transpose(eights, first, pieces);
        }
    }
    // Under way at once: all, where N is at most 16 and a slice has 2400 columns; more would spill.
    static constexpr int AT_ONCE = N_FRAGS == 2 ? 10 : 5;

    __device__ void gmem2reg(uint4 (&eights)[AT_ONCE], int first, int pieces, int k0, int end,
                             int n0) const {
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int i = first + j * WARPS, k = i / N_FRAGS * 32 + lane % 4 * 8;
            eights[j] = load(n0 + i % N_FRAGS * 8 + lane / 4, k0 + k, i < pieces ? end : 0);
        }
    }
    __device__ void transpose(const uint4 (&eights)[AT_ONCE], int first, int pieces) const {
        int row_of_lane = lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int i = first + j * WARPS, k = i / N_FRAGS * 32 + row_of_lane;
            if (i < pieces) stmatrix_x4_trans((memory + DENSE + row(k)) ^ i % N_FRAGS * 16, eights[j]);
        }
    }

    // The row that a lane addresses for ldmatrix in the first step of a chunk, and bytes from there to
    // the second.
    struct Rows {
        Address first;
        uint32_t step;
    };
    // For all chunks of a block: `regular` ones of 48 columns each, then those of level 1, whose rows
    // are three apart. Steps are multiples of eight rows, so that a lane's exchange of eights stays.
    struct Lane {
        Address first, first_of_level;
        uint32_t step;
        int regular;

        __device__ Rows rows(int nth) const {
            bool level = nth >= regular;
            uint32_t step = level ? LEVEL_STRIDE * this->step : this->step;
            return {(level ? first_of_level : first) + (level ? nth - regular : nth) * 2 * step, step};
        }
    };
    // Wide blocks have no registers left: they compute these in every chunk anew.
    __device__ static uint32_t kept(uint32_t value) { return BLOCK_N <= 16 ? keep(value) : value; }
    __device__ Lane of_lane(int regular) const {
        int matrix = lane / 8, j = lane % 8;
        bool zeros = j % 4 == 3;
        int k = zeros ? 6 * matrix + 6 + j / 4 : 6 * matrix + j / 4 * 3 + j % 4;
        // Rows of zeros are read in the banks that the other lanes leave.
        auto at = [&](int k) { return zeros ? memory + row(k) % ZERO_BYTES : memory + DENSE + row(k); };
        uint32_t step = zeros ? 0 : STEP_COLS * ROW_BYTES;
        return {kept(at(k)), kept(at(LEVEL_STRIDE * k + 1)), kept(step), regular};
    }

    // The same for a row of B that an extra chunk lists.
    __device__ Address listed(uint32_t k) const {
        return k == NOT_LISTED ? memory : memory + DENSE + row(k);
    }
};

}  // namespace lscd
