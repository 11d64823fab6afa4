// Launching the product of a format in strips: what stands before it, the product, and what adds its sums.
#pragma once
#include "../common/grid.cuh"
#include "hopper_wgmma_columns.cuh"
#include "hopper_wgmma_expand.cuh"
#include "hopper_wgmma_product.cuh"
#include "hopper_wgmma_slots.cuh"

namespace lscd {
namespace {

// What a product needs first: B', or, where it meets B as it lies, how that lies.
template <class FORMAT, int BLOCK_N>
cudaError_t launch_before(WgmmaProblem& p, cudaStream_t stream) {
    using Expand = ExpandDense<FORMAT, BLOCK_N>;
    auto expand = expand_dense<FORMAT, BLOCK_N>;
    if (auto error = divide_as_product(expand)) return error;
    dim3 grid(p.rounds * Expand::PARTS, p.passes());
    return launch_grid(expand, p, grid, Expand::THREADS, Expand::SHARED_BYTES, stream);
}
template <class, int BLOCK_N>
cudaError_t launch_before(ColumnsProblem& p, cudaStream_t) {
    return ColumnsTile<BLOCK_N>::make_map(&p);
}

template <class FORMAT, class T, int BLOCK_N, int WARPS = wgmma_warps<FORMAT>(BLOCK_N)>
cudaError_t launch(const WgmmaProblem& p, cudaStream_t stream) {
    using Tile = typename FORMAT::template Tile<BLOCK_N>;
    using Dense = DenseTiles<FORMAT, BLOCK_N, WARPS>;
    bool tiles = p.tile_slots >= Dense::LEAST_TILES && p.tile_slots <= Dense::MOST_TILES;
    using Ring = typename FORMAT::template Ring<BLOCK_N, WARPS>;
    bool fits = tiles && Ring::fits(p) && p.warps == WARPS;
    if (!fits) return cudaErrorInvalidValue;
    auto kernel = hopper_wgmma<FORMAT, T, BLOCK_N, WARPS>;
    auto add = add_slots<T, BLOCK_N, WARPS>;
    int bytes = DENSE_TILES + p.tile_slots * Tile::BYTES + WARPS * p.ring_bytes;
    auto limit = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (auto error = cudaFuncSetAttribute((const void*)kernel, limit, MOST_SHARED_BYTES)) return error;
    if (auto error = divide_as_product(add)) return error;
    typename FORMAT::Problem whole{p};
    dim3 grid(p.blocks, p.passes()), rows(p.added_rows * (BLOCK_N / 8), p.passes());
    auto error = launch_before<FORMAT, BLOCK_N>(whole, stream);
    if (!error) error = launch_grid(kernel, whole, grid, 32 * WARPS, bytes, stream);
    if (error || !p.adds_slots()) return error;
    return launch_grid(add, p, rows, PartialSums<BLOCK_N, WARPS>::THREADS, 0, stream);
}

template <class FORMAT, class T>
cudaError_t launch_width(const WgmmaProblem& p, cudaStream_t stream) {
    switch (p.block_n) {
        case 24: return launch<FORMAT, T, 24>(p, stream);
        case 32: return launch<FORMAT, T, 32>(p, stream);
        case 40: return launch<FORMAT, T, 40>(p, stream);
        case 48: return launch<FORMAT, T, 48>(p, stream);
        case 56: return launch<FORMAT, T, 56>(p, stream);
        case 64: return launch<FORMAT, T, 64>(p, stream);
        case 80: return launch<FORMAT, T, 80>(p, stream);
        case 96: return launch<FORMAT, T, 96>(p, stream);
        case 112: return launch<FORMAT, T, 112>(p, stream);
        case 128: return launch<FORMAT, T, 128>(p, stream);
        default: return cudaErrorInvalidValue;
    }
}

// Blocks that not all formats have: of up to 16 columns; of few warps; of more than 128 columns.
template <class FORMAT, class T>
cudaError_t launch_narrowest(const WgmmaProblem& p, cudaStream_t stream) {
    switch (p.block_n) {
        case 8: return launch<FORMAT, T, 8>(p, stream);
        case 16: return launch<FORMAT, T, 16>(p, stream);
        default: return cudaErrorInvalidValue;
    }
}
template <class FORMAT, class T>
cudaError_t launch_few(const WgmmaProblem& p, cudaStream_t stream) {
    switch (p.block_n) {
        case 8: return launch<FORMAT, T, 8, FEW_WARPS>(p, stream);
        case 16: return launch<FORMAT, T, 16, FEW_WARPS>(p, stream);
        case 32: return launch<FORMAT, T, 32, FEW_WARPS>(p, stream);
        case 48: return launch<FORMAT, T, 48, FEW_WARPS>(p, stream);
        case 64: return launch<FORMAT, T, 64, FEW_WARPS>(p, stream);
        default: return cudaErrorInvalidValue;
    }
}
template <class FORMAT, class T>
cudaError_t launch_quarters(const WgmmaProblem& p, cudaStream_t stream) {
    switch (p.block_n) {
        case 160: return launch<FORMAT, T, 160>(p, stream);
        case 192: return launch<FORMAT, T, 192>(p, stream);
        case 224: return launch<FORMAT, T, 224>(p, stream);
        case 256: return launch<FORMAT, T, 256>(p, stream);
        case 288: return launch<FORMAT, T, 288>(p, stream);
        case 320: return launch<FORMAT, T, 320>(p, stream);
        case 352: return launch<FORMAT, T, 352>(p, stream);
        case 384: return launch<FORMAT, T, 384>(p, stream);
        default: return cudaErrorInvalidValue;
    }
}

template <class FORMAT, class T>
cudaError_t launch_blocks(const WgmmaProblem& p, cudaStream_t stream) {
    if constexpr (FORMAT::MORE_BLOCKS) {
        if (p.block_n <= 64 && p.warps == FEW_WARPS) return launch_few<FORMAT, T>(p, stream);
        if (p.block_n <= 16) return launch_narrowest<FORMAT, T>(p, stream);
        // Two stages are a little faster, and of these blocks most rings have room for them.
        if (p.block_n == 64 && p.stages == STRIP_STAGES) return launch<typename FORMAT::InStages, T, 64>(p, stream);
        if (p.block_n > 128) return launch_quarters<FORMAT, T>(p, stream);
    } else if (p.block_n == 160) return launch<FORMAT, T, 160>(p, stream);
    return launch_width<FORMAT, T>(p, stream);
}

template <class FORMAT>
cudaError_t launch_strips(const WgmmaProblem& p, cudaStream_t stream) {
    return p.dtype == Dtype::fp16 ? launch_blocks<FORMAT, __half>(p, stream)
                                  : launch_blocks<FORMAT, __nv_bfloat16>(p, stream);
}

}  // namespace
}  // namespace lscd
