// Weights that found no slot, to fragments of mma.sync: eight at a time, or four times as many.
#pragma once
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// Four numbers of a lane, less than 256 each, in one register: to add one to an address is one instruction.
struct FourNumbers {
    uint32_t all;

    __device__ FourNumbers(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
        : all(keep(a | b << 8 | c << 16 | d << 24)) {}
    template <int I, uint32_t TIMES = 1>
    __device__ Address added_to(Address at) const {
        static_assert(TIMES < 256);
        return __dp4a(all, TIMES << 8 * I, at);
    }
};

// A row of B' that a lane reads for ldmatrix: row k, from where its columns begin.
struct MetRow {
    Address row;

    __device__ __forceinline__ void meet(Address eight, uint32_t k) { row = eight + k * DenseTile<8>::ROW_BYTES; }
};

// A [16 x 8] holds a weight in each column, and B the rows of B' that they meet.
template <class T, int BLOCK_N>
struct EntryStep : MetRow {
    using Tile = DenseTile<BLOCK_N>;

    uint32_t a[2];

    __device__ __forceinline__ void add_to(float (&sum)[BLOCK_N / 8][4]) const {
        constexpr int EIGHTS = BLOCK_N / 8, AT_ONCE = 4;
        static_assert(Tile::WIDTH / 8 >= AT_ONCE);
#pragma unroll
        for (int from = 0; from < EIGHTS; from += AT_ONCE) {
            int first = min(from, Tile::WIDTH / 8 - AT_ONCE);  // some of the last ones again: the tile ends there
            uint32_t b[AT_ONCE];
            ldmatrix_x4_trans(b, row + first * Tile::EIGHT_BYTES);
#pragma unroll
            for (int i = from; i < from + AT_ONCE && i < EIGHTS; i++)
                mma_m16n8k8<T>(sum[i], a[0], a[1], b[i - first]);
        }
    }
};

// A [16 x 32] holds a weight in each column, of each row two of four columns at most: for half of the tensor core's
// time, and two thirds of the instructions, that four steps take.
template <class T, int BLOCK_N>
struct FourSteps : MetRow {
    using Tile = DenseTile<BLOCK_N>;

    uint32_t a[4], metadata;

    __device__ __forceinline__ void add_to(float (&sum)[BLOCK_N / 8][4]) const {
        constexpr int EIGHTS = BLOCK_N / 8, AT_ONCE = 4;
#pragma unroll
        for (int from = 0; from < EIGHTS; from += AT_ONCE) {
            uint32_t b[AT_ONCE][4];
#pragma unroll
            for (int i = from; i < from + AT_ONCE && i < EIGHTS; i++)
                ldmatrix_x4_trans(b[i - from], row + i * Tile::EIGHT_BYTES);
#pragma unroll
            for (int i = from; i < from + AT_ONCE && i < EIGHTS; i++)
                mma_sp_m16n8k32<T, 0>(sum[i], a, b[i - from], metadata);
        }
    }
};

}  // namespace
}  // namespace lscd
