// Launching a kernel in its configuration, and adding up the rows that several workers share.
#pragma once
#include "base.cuh"
#include "config.cuh"
#include "grid.cuh"
#include "store.cuh"

namespace lscd {

// What a launch would look like on the current device: the plan is made from it.
struct Shape {
    int32_t block_m, block_n, threads, shared_bytes, blocks_per_sm;
};

inline cudaError_t shape_of(const Config& config, const Problem& p, Shape* shape) {
    *shape = {config.block_m, config.block_n, config.threads, config.shared_bytes_for(p), 0};
    if (cudaError_t error = config.allow_shared(p)) return error;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&shape->blocks_per_sm, config.kernel,
                                                         config.threads, shape->shared_bytes);
}

namespace {

// C = sum of the partial sums, in the order of the workers: the same bits in every run. Blocks for each
// row of tiles; those of rows that one worker has alone find nothing to do.
template <class T>
__global__ void add_partials(Problem p) {
    let_next_grid_begin();
    wait_for_previous_grid();
    Shares shares(p);
    int row = blockIdx.y, from = row * shares.row_tiles;
    int first = shares.worker_of(from), last = shares.worker_of(from + shares.row_tiles - 1);
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = i / p.block_m, m = row * p.block_m + i % p.block_m;
    if (first == last || n >= p.N || m >= p.M) return;
    // The first worker may have begun in an earlier row; this row is the second that it has a part of.
    int64_t sums = int64_t(p.N) * p.block_m;
    bool earlier = shares.first(first) / shares.row_tiles < row;
    float sum = ld_global(p.partial + (2 * first + earlier) * sums + i);
#pragma unroll 4
    for (int w = first + 1; w <= last; w++) sum += ld_global(p.partial + 2 * w * sums + i);
    round_to(static_cast<T*>(p.C) + n * p.ldc + m, sum);
}

// Before the end of the grid before it, the product reads A alone. Where SMs have room for more blocks
// than an early grid has, it would crowd on few of them: p.at_once spreads it.
cudaError_t launch(const Config& config, Problem p, cudaStream_t stream) {
    if (cudaError_t error = config.allow_shared(p)) return error;
    p.block_m = config.block_m;
    auto product = (void (*)(Problem))config.kernel;
    cudaError_t error = launch_grid(product, p, config.grid(p), config.threads,
                                    config.shared_bytes_for(p), stream, {p.early != 0});
    Shares shares(p);
    if (error || shares.end_with_rows()) return error;
    auto kernel = p.dtype == Dtype::fp16 ? add_partials<__half> : add_partials<__nv_bfloat16>;
    dim3 grid(ceil_div(p.N * p.block_m, 256), shares.rows);
    return launch_grid(kernel, p, grid, 256, 0, stream, {p.early != 0});
}

}  // namespace
}  // namespace lscd
