// One product C[M, N] = A[M, K] * B[K, N] as launchers receive it from Python (backends/problem.py), and
// how the tiles of A are shared out to blocks.
#pragma once
#include <cstdint>

#include "base.cuh"

namespace lscd {

enum class Dtype : int32_t { fp16, bf16 };

struct Problem {
    Dtype dtype;
    int32_t M, K, N;
    const void* A[5];  // the arrays of the encoding, in the order that its kernel names
    const void* B;     // [N][ldb], columns of B contiguous: activations [tokens, K]; 16-byte aligned
    int64_t ldb;       // elements, a multiple of 8
    void* C;           // [N][ldc]
    int64_t ldc;
    float* partial;    // [workers][2][N][block_m]: sums of rows of tiles that several workers share
    int32_t workers;
    int32_t tile_values;  // values of a tile, for kernels that are configured by it: see there
    int32_t block_m;      // rows of C of a block; launchers set it
    int32_t sm90;         // whether the GPU is one: it has wgmma, and grids that begin early
    int32_t early;        // whether the grid may begin before the one before it has ended
    int32_t at_once;      // blocks of the grid that an SM has at once, at most; 0: as many as fit
};

constexpr int TILE_K = 64;  // columns of A that a block decodes at a time

// The tiles of A, row of tiles after row of tiles as they lie in memory, in p.workers shares of equal
// length, but for one tile. Every worker (a block for each BLOCK_N columns of C) takes equally long,
// whatever M and K are. A row that several of them share is added up in the end. With as many workers
// as rows, each has a row; with s times as many, K is split in s.
struct Shares {
    int row_tiles, rows, length, longer;  // the first `longer` shares have one tile more than `length`

    __host__ __device__ explicit Shares(const Problem& p)
        : row_tiles(ceil_div(p.K, TILE_K)), rows(ceil_div(p.M, p.block_m)),
          length(rows * row_tiles / p.workers), longer(rows * row_tiles % p.workers) {}

    // The first tile of a worker; its last one is the one before the next worker's first.
    __host__ __device__ int first(int worker) const {
        return worker * length + (worker < longer ? worker : longer);
    }
    __host__ __device__ int worker_of(int tile) const {
        int later = tile - longer * (length + 1);
        return later < 0 ? tile / (length + 1) : longer + later / length;
    }
    __host__ __device__ bool end_with_rows() const { return longer == 0 && length % row_tiles == 0; }
};

// Tiles [first, last) of one worker.
struct Share {
    int first, last;
    __device__ Share(const Shares& shares, int worker)
        : first(shares.first(worker)), last(shares.first(worker + 1)) {}
};

}  // namespace lscd
