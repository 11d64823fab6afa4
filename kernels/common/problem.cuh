// One product C[M, N] = A[M, K] * B[K, N] as launchers receive it from Python (backends/cuda.py), and
// how its K loop is split over blocks.
#pragma once
#include <cstdint>

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
    float* partial;    // [split_k][N][M] where split_k > 1
    int32_t split_k;
    int32_t tile_values;  // values of a tile, for kernels that are configured by it: see there
};

constexpr int TILE_K = 64;  // columns of A that a block decodes at a time

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// K tiles [first, last) of one part of a K loop that is split in `parts`.
struct KRange {
    int first, last;
    __device__ KRange(int K, int part, int parts) {
        int tiles = ceil_div(K, TILE_K);
        first = int(int64_t(tiles) * part / parts);
        last = int(int64_t(tiles) * (part + 1) / parts);
    }
};

}  // namespace lscd
