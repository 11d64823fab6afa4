// bitmap_strips and coded_strips for the wgmma kernel: a chunk becomes A registers of dense products, zeros included.
// These meet B as it lies: there are no rows of zeros, no level 1, and no weights without a slot that would ask for
// rows of their own.
#pragma once
#include "hopper_bitmap.cuh"
#include "hopper_coded.cuh"
#include "hopper_wgmma_columns.cuh"
#include "hopper_wgmma_warp.cuh"

namespace lscd {
namespace {

template <class FORMAT, class T, int BLOCK_N, int WARPS>
struct StreamWarp;

// TWO_ENDED: its rings with two ends, where blocks have so many columns that two of the largest chunks may have no room.
template <class STREAM, bool TWO_ENDED = true>
struct StreamStrips {
    using Stream = STREAM;
    using Problem = ColumnsProblem;
    template <int BLOCK_N>
    using Tile = ColumnsTile<BLOCK_N>;
    static constexpr bool WHOLE_LINES = true, FAR = false, MORE_BLOCKS = true;
    static constexpr int COLUMNS_OF_FEW = 192;
    using InStages = StreamStrips<STREAM, false>;
    static constexpr bool has_ends(int block_n, int warps) {
        return TWO_ENDED && (block_n > 64 || block_n == 64 && warps > FEW_WARPS);
    }
    template <int BLOCK_N, int WARPS>
    using Ring = std::conditional_t<has_ends(BLOCK_N, WARPS), TwoEndedRing<WARPS>, StagedRing<StreamStrips, WARPS>>;
    template <class T, int BLOCK_N, int WARPS>
    using Warp = StreamWarp<StreamStrips, T, BLOCK_N, WARPS>;
};
using BitmapStrips = StreamStrips<BitmapStream>;
using CodedStrips = StreamStrips<CodedStream>;

template <class FORMAT, class T, int BLOCK_N, int WARPS>
struct StreamWarp : WgmmaWarp<FORMAT, T, BLOCK_N, WARPS> {
    using Base = WgmmaWarp<FORMAT, T, BLOCK_N, WARPS>;
    using Base::Base, Base::lane, Base::dense, Base::sum;
    using Tile = typename Base::Tile;
    using Stream = typename FORMAT::Stream;
    using Header = typename Stream::Header;
    // Steps of a word of registers: where sums leave fewer registers, two.
    static constexpr int STEPS = Tile::STEPS, PRODUCTS = Stream::REGISTERS / STEPS / 4, PRODUCT_COLS = 16;

    uint32_t a[2][PRODUCTS][4] = {};  // of one step, and of the next

    // A chunk in steps: registers of one come while the tensor core works on those of the one before. If the chunk
    // `follows` another, products of that one may still read its tile of B.
    template <class Turn>
    __device__ __forceinline__ void chunk(Address at, Turn, bool follows) {
        Header header(at, lane);
        Stream stream(at, lane, header);
        uint32_t rows;
        for_steps<Stream::WORDS * STEPS>([&](auto nth) { step<nth>(stream, header, rows, follows); });
    }
    __device__ void ended() const { used(1); }

  private:
    template <int STEP>
    __device__ __forceinline__ void step(Stream& stream, const Header& header, uint32_t& rows, bool follows) {
        constexpr int TOGETHER = Stream::WORDS * STEPS / Base::Dense::APART;  // steps
        constexpr int FROM = STEP % STEPS * PRODUCTS * 4, K = STEP % TOGETHER * PRODUCTS * PRODUCT_COLS;
        auto& mine = a[STEP % 2];
        if (STEP % TOGETHER == 0) rows = dense.template rows_of<STEP>();
        bool tile_is_there = dense.template ask<STEP>();
        stream.template take<STEP / STEPS, FROM, FROM + PRODUCTS * 4>(header, [&](int i, uint32_t value) {
            mine[i / 4 % PRODUCTS][i % 4] = left_out(Stage::extract) ? header.any() & 0x3bff3bff : wgmma_operand(value);
        });
        dense.template catch_up<STEP>(follows);
        wgmma_wait<0>();
        used(1 - STEP % 2);
        dense.template enter<STEP>(tile_is_there, follows);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < PRODUCTS; i++)
            if (!left_out(Stage::smem2tc)) multiply(mine[i], dense.descriptor(rows, K + i * PRODUCT_COLS));
        wgmma_commit();
        dense.template go_on<STEP>(follows);
    }
    __device__ __forceinline__ void multiply(const uint32_t (&a)[4], uint64_t b) {
        constexpr int COLS = Tile::WGMMA_COLS;
#pragma unroll
        for (int i = 0; i < Tile::SIDE_BY_SIDE; i++)
            wgmma_m64k16<T, COLS>(reinterpret_cast<float(&)[COLS / 8][4]>(sum[i * COLS / 8]), a,
                                  b + (i * COLS * TENSOR_COLS * 2 >> 4));
    }
    __device__ __forceinline__ void used(int step) const {
#pragma unroll
        for (int i = 0; i < PRODUCTS; i++) wgmma_used(a[step][i]);
    }
};

}  // namespace
}  // namespace lscd
