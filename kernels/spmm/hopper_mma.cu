// SpMM on zero-row 2:4: any mask on the sparse tensor cores of sm_90.
//
//   a block has a slice of K, whose B stays in shared memory, and BLOCK_N columns of C; its warps have
//   shares of equal costs of the slice and never wait for each other after the start; drawn with 16 warps and
//   pieces of 48 columns, of which nested chunks have 72
//
//          slice 0     slice 1
//        +-----------+-----------+
//        | warp 0    | warp 16   |     a warp: 64 rows x 48 columns (a piece) at a time, then the
//        |   +-------+ ..........|     block's of level 1 and extra chunks, then the next 64 rows
//        +---+ warp 1|           |
//        |           |           |     what it has of 64 rows is a segment: its sums go to memory of
//        +-----------+-----------+     their own, and add_segments adds them in their order
//
//   global   data of chunk i + stages ...          B
//              | ld_sparse (bulk copies)           | ld_dense, once
//   shared   ring of the warp                    B [k][n], and a row of zeros
//              | metadata -- presence -- bmma -->  |
//              | addresses -- gather               | ldmatrix: rows k k+1 k+2 zeros ...
//   tensor   A registers ------- mma.sp <----------+
//              metadata selects rows of B
//
// extract: a slot that is not in use gathers the next value of its stream, and the metadata multiplies
// it by zeros. So weights must be finite. Where metadata that PTX does not promise does not select
// (hopper_select.cu), hopper_mma_documented does without it, eight columns at a time.
#include "../common/grid.cuh"
#include "hopper_block.cuh"

namespace lscd {
namespace {

template <class T, int BLOCK_N, Kind KIND, int COPY>
__global__ void __maxnreg__(registers_of(BLOCK_N, KIND))
    hopper_mma(const __grid_constant__ HopperProblem p) {
#if LSCD_SM90
    extern __shared__ __align__(1024) unsigned char memory[];
    HopperKernel<T, BLOCK_N, KIND, COPY>(p, shared_address(memory)).run();
#else
    __trap();
#endif
}

constexpr int DOCUMENTED_N = 8;

template <class T, Kind KIND>
__global__ void __launch_bounds__(warps_of(DOCUMENTED_N, KIND) * 32, 1)
    hopper_mma_documented(const __grid_constant__ HopperProblem p) {
#if LSCD_SM90
    extern __shared__ __align__(1024) unsigned char memory[];
    HopperKernel<T, DOCUMENTED_N, KIND, 1, true>(p, shared_address(memory)).run();
#else
    __trap();
#endif
}

template <class T, int BLOCK_N, int PARTS>
__global__ void __maxnreg__(SUMS_REGISTERS)
    add_segments(const __grid_constant__ HopperProblem p) {
#if LSCD_SM90
    extern __shared__ __align__(1024) unsigned char memory[];
    let_next_grid_begin();
    SegmentSums<T, BLOCK_N, PARTS> segments(p, Shared<int>(memory));
    segments.find();
    __syncthreads();
    auto first = segments.first();
    wait_for_previous_grid();
    segments.add(first);
#else
    __trap();
#endif
}

// --- launching ---

template <class T, int BLOCK_N, int PARTS>
cudaError_t launch_sums(const HopperProblem& p, dim3 grid, cudaStream_t stream) {
    return launch_grid(add_segments<T, BLOCK_N, PARTS>, p, grid, SUMS_THREADS, bounds_bytes(p), stream);
}

// Two threads add up, or one where its blocks have `room` beside the product's and those of two have not: who is
// left over begins behind it.
template <class T, int BLOCK_N>
cudaError_t launch_sums(const HopperProblem& p, int room, cudaStream_t stream) {
    auto grid = [&](int parts) {
        return dim3(p.row_blocks, ceil_div(ceil_div(p.N, 2) * PAIR_QUADS * parts, SUMS_THREADS));
    };
    auto waits = [&](dim3 blocks) { return int(blocks.x * blocks.y) <= room; };
    dim3 of_two = grid(2);
    if constexpr (waiting(BLOCK_N, SIXES) > 0) {
        dim3 of_one = grid(1);
        if (waits(of_one) && !waits(of_two)) return launch_sums<T, BLOCK_N, 1>(p, of_one, stream);
    }
    return launch_sums<T, BLOCK_N, 2>(p, of_two, stream);
}

template <class T, int BLOCK_N>
cudaError_t launch(void (*kernel)(HopperProblem), const HopperProblem& p, cudaStream_t stream) {
    bool fits = p.stages >= 1 && p.stages <= MOST_STAGES && p.warps == warps_of(BLOCK_N, Kind(p.kind));
    if (!fits) return cudaErrorInvalidValue;
    int rings = p.warps * p.stages * p.stage_bytes, bytes = DENSE + dense_bytes(p, BLOCK_N) + rings;
    auto limit = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (auto error = cudaFuncSetAttribute((const void*)kernel, limit, MOST_SHARED_BYTES)) return error;
    dim3 grid(p.slices * p.blocks_per_slice, ceil_div(p.N, BLOCK_N));
    int waits = p.documented ? 0 : waiting(BLOCK_N, Kind(p.kind));  // of add_segments, beside each block
    GridOptions options;
    options.beside = waits * (RESERVED_SHARED_BYTES + bounds_bytes(p));
    if (auto error = launch_grid(kernel, p, grid, p.warps * 32, bytes, stream, options)) return error;
    return launch_sums<T, BLOCK_N>(p, waits * int(grid.x), stream);
}

// Wide blocks wait for shared memory and the tensor core, not for copies, packed and nested chunks are large, and those
// of sixes have two pieces: one chunk each.
template <class T, int BLOCK_N, Kind KIND>
cudaError_t launch_copy(const HopperProblem& p, cudaStream_t stream) {
    if (p.copy == 1) return launch<T, BLOCK_N>(hopper_mma<T, BLOCK_N, KIND, 1>, p, stream);
    if constexpr (BLOCK_N <= 16 && KIND == PAIRS)
        if (p.copy == 2) return launch<T, BLOCK_N>(hopper_mma<T, BLOCK_N, KIND, 2>, p, stream);
    return cudaErrorInvalidValue;
}

template <class T, int BLOCK_N>
cudaError_t launch_streams(const HopperProblem& p, cudaStream_t stream) {
    return with_kind(p.kind, [&](auto constant) {
        return launch_copy<T, BLOCK_N, decltype(constant)::value>(p, stream);
    });
}

template <class T>
cudaError_t launch_documented(const HopperProblem& p, cudaStream_t stream) {
    if (p.block_n != DOCUMENTED_N || p.copy != 1) return cudaErrorInvalidValue;
    return with_kind(p.kind, [&](auto constant) {
        return launch<T, DOCUMENTED_N>(hopper_mma_documented<T, decltype(constant)::value>, p, stream);
    });
}

template <class T>
cudaError_t launch_width(const HopperProblem& p, cudaStream_t stream) {
    if (p.documented) return launch_documented<T>(p, stream);
    switch (p.block_n) {
        case 8: return launch_streams<T, 8>(p, stream);
        case 16: return launch_streams<T, 16>(p, stream);
        case 32: return launch_streams<T, 32>(p, stream);
        case 64: return launch_streams<T, 64>(p, stream);
        default: return cudaErrorInvalidValue;
    }
}

}  // namespace

cudaError_t launch_hopper(const HopperProblem& p, cudaStream_t stream) {
    if (p.kind < PACKED || p.kind > NESTED) return cudaErrorInvalidValue;
    return p.dtype == Dtype::fp16 ? launch_width<__half>(p, stream)
                                  : launch_width<__nv_bfloat16>(p, stream);
}

}  // namespace lscd
