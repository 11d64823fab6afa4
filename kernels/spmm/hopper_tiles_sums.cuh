// The end of hopper_tiles: sums on their way to C, at once or as parts of a row block that several pairs have.
#pragma once
#include "hopper_tiles.cuh"

namespace lscd {
namespace {

// Of a thread block's columns; a grid of its own adds them.
template <int COLUMNS>
using PairSums = PartialSums<COLUMNS, PAIR_STRIPS, false>;

// Whether C takes words of two rows.
__device__ inline bool in_words(const WgmmaProblem& p) {
    return p.M % 2 == 0 && p.ldc % 2 == 0 && reinterpret_cast<uintptr_t>(p.C) % 4 == 0;
}

// RoundedSums of words: two lanes of neighbouring rows have two rows of two columns, and each takes one column.
template <class T>
struct RoundedPairs : RoundedSums<T> {
    using RoundedSums<T>::p, RoundedSums<T>::n, RoundedSums<T>::has, RoundedSums<T>::bias, RoundedSums<T>::to;
    bool odd;

    __device__ RoundedPairs(const WgmmaProblem& p, int m, int n)
        : RoundedSums<T>(p, m, n + m % 2), odd(m % 2) {
        to -= odd;
    }

    __device__ uint32_t rounded(float first, float second) const {
        return bits_of<T>(finished(p, first, bias[0]), finished(p, second, bias[1]));
    }
    // Of all lanes of a warp.
    __device__ void store(const float (&sum)[4]) const {
        uint32_t even_column = rounded(sum[0], sum[2]), odd_column = rounded(sum[1], sum[3]);
        RowPairs two = pair_rows(even_column, odd_column, odd, 4);
        if (n >= p.N) return;
        if (has[0]) st_global(reinterpret_cast<uint32_t*>(to), two.upper);
        if (has[1]) st_global(reinterpret_cast<uint32_t*>(to + 8), two.lower);
    }
};

// A segment's sums of a warp, of one half of a pass's columns.
template <class T, class Has>
struct TileSums {
    static constexpr int EIGHTS = Has::COLUMNS / 8;
    const TilesProblem& p;
    // Computed where they are needed: the product leaves no registers for them.
    int rank = anew(int(rank_in_cluster()));
    int thread = anew(int(threadIdx.x)), strip = thread / 32, lane = thread % 32;

    // Of a product, by its number.
    __device__ void store(const float (&sum)[EIGHTS][4], int product, const Rounds& segment) const {
        if (segment.slot >= 0) return store_part(sum, product, segment.slot);
        if (in_words(p)) return store_rounded<RoundedPairs<T>>(sum, product, segment);
        store_rounded<RoundedSums<T>>(sum, product, segment);
    }
    template <class Rounded>
    __device__ void store_rounded(const float (&sum)[EIGHTS][4], int product, const Rounds& segment) const {
        int n = first_column<Has>(p, segment.pass, rank, product) + lane % 4 * 2;
        Rounded to(p, segment.row_block * PAIR_ROWS + strip * STRIP_ROWS + lane / 4, n);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            if (8 * i < p.product_columns) to.store(sum[i]);
            to.next_eight();
        }
    }
    __device__ void store_part(const float (&sum)[EIGHTS][4], int product, int slot) const {
        PairSums<Has::ALL_COLUMNS> to(p, rank, slot);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
            if (8 * i < p.product_columns)
                st_global(to.at(product * EIGHTS + i, strip * 32 + lane), quad(sum[i]));
    }
};

// Parts in the order of their slots: the same bits in every run. A block has eight columns of a row block, as
// many threads as have written them.
template <class T, class Has>
struct AddParts {
    using Partial = PairSums<Has::ALL_COLUMNS>;

    const TilesProblem& p;
    int shared = blockIdx.x / Partial::EIGHTS, eight = blockIdx.x % Partial::EIGHTS, rank = blockIdx.y;
    int strip = threadIdx.x / 32, lane = threadIdx.x % 32;

    __device__ void run() const {
        uint4 rows = __ldg(reinterpret_cast<const uint4*>(p.shared + shared));
        int pass = rows.x / row_blocks(p), row_block = rows.x % row_blocks(p);
        int m = row_block * PAIR_ROWS + strip * STRIP_ROWS + lane / 4;
        int product = eight / TileSums<T, Has>::EIGHTS, column = eight % TileSums<T, Has>::EIGHTS * 8;
        int n = first_column<Has>(p, pass, rank, product) + column + lane % 4 * 2;
        float sum[4] = {};
        wait_for_previous_grid();
        if (column >= p.product_columns) return;
#pragma unroll 4
        for (int slot = rows.y; slot < int(rows.z); slot++)
            add_quad(sum, ld_global(Partial(p, rank, slot).at(eight, threadIdx.x)));
        if (in_words(p)) return RoundedPairs<T>(p, m, n).store(sum);
        RoundedSums<T>(p, m, n).store(sum);
    }
};

template <class FORMAT, class T, int BLOCK_N>
__global__ void __launch_bounds__(PairSums<BLOCK_N>::THREADS)
    add_parts(const __grid_constant__ TilesProblem p) {
#if LSCD_SM90
    let_next_grid_begin();
    AddParts<T, TilesOf<FORMAT, BLOCK_N>>{p}.run();
#else
    __trap();
#endif
}

}  // namespace
}  // namespace lscd
