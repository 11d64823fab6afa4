// bitmap_strips for the wgmma kernel: a chunk becomes A registers of dense products, zeros included. These meet B as
// it lies: there are no rows of zeros, no level 1, and no weights without a slot that would ask for rows of their own.
#pragma once
#include "hopper_bitmap.cuh"
#include "hopper_wgmma_columns.cuh"
#include "hopper_wgmma_warp.cuh"

namespace lscd {
namespace {

template <class T, int BLOCK_N, int WARPS>
struct BitmapWarp;

struct BitmapStrips {
    using Problem = ColumnsProblem;
    template <int BLOCK_N>
    using Tile = ColumnsTile<BLOCK_N>;
    static constexpr bool WHOLE_LINES = true, FAR = false, MORE_BLOCKS = true;
    static constexpr int COLUMNS_OF_FEW = 192;
    template <class T, int BLOCK_N, int WARPS>
    using Warp = BitmapWarp<T, BLOCK_N, WARPS>;
};

template <class T, int BLOCK_N, int WARPS>
struct BitmapWarp : WgmmaWarp<BitmapStrips, T, BLOCK_N, WARPS> {
    using Base = WgmmaWarp<BitmapStrips, T, BLOCK_N, WARPS>;
    using Base::Base, Base::lane, Base::dense, Base::sum;
    using Tile = typename Base::Tile;
    using Stream = BitmapStream;
    static constexpr int PRODUCTS = Stream::REGISTERS / 4, PRODUCT_COLS = 16;

    uint32_t a[2][PRODUCTS][4] = {};  // of one word of bits, and of the next

    // A chunk in four steps, a word of bits each: registers of one come while the tensor core works on those of the
    // one before. If the chunk `follows` another, products of that one may still read its tile of B.
    template <class Turn>
    __device__ __forceinline__ void chunk(Address at, Turn, bool follows) {
        Address rows = __shfl_sync(~0u, dense.tile(), 0);  // uniform: descriptors cost no vector registers
        uint4 bits = ld_shared_v4(at + lane * 16);
        uint32_t second = ld_shared_u8(at + Stream::BANKS + lane);
        Stream stream(at, lane, bits.x);
        step<0>(stream, bits, second, rows, follows);
        step<1>(stream, bits, second, rows, follows);
        step<2>(stream, bits, second, rows, follows);
        step<3>(stream, bits, second, rows, follows);
    }
    __device__ void ended() const { used(1); }

  private:
    template <int WORD>
    __device__ __forceinline__ void step(Stream& stream, const uint4& bits, uint32_t second, Address rows,
                                         bool follows) {
        auto& mine = a[WORD % 2];
        bool tile_is_there = dense.template ask<WORD>();
        stream.take<WORD>(bits, second, [&](int i, uint32_t value) {
            mine[i / 4][i % 4] = left_out(Stage::extract) ? bits.x & 0x3bff3bff : wgmma_operand(value);
        });
        wgmma_wait<0>();
        used(1 - WORD % 2);
        auto entered = dense.template enter<WORD>(tile_is_there, follows);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < PRODUCTS; i++)
            if (!left_out(Stage::smem2tc))
                wgmma_m64k16<T, BLOCK_N>(sum, mine[i], Tile::descriptor(rows, (WORD * PRODUCTS + i) * PRODUCT_COLS));
        wgmma_commit();
        dense.template go_on<WORD>(entered);
    }
    __device__ __forceinline__ void used(int step) const {
#pragma unroll
        for (int i = 0; i < PRODUCTS; i++) wgmma_used(a[step][i]);
    }
};

}  // namespace
}  // namespace lscd
