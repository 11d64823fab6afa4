// What lane_24_strips, bitmap_strips and coded_strips share on the GPU: chunks of 16 rows and 256 columns in strips of
// 16 rows, whole 64 rows of them, a warp each (kernels/cpu/encode/chunk_16x256.h).
#pragma once
#include "weights.cuh"

namespace lscd::chunk_16x256 {
namespace {  // other formats have a Grid of their own

constexpr int ROWS = 16, COLS = 256;  // of a chunk
constexpr int64_t STRIPS = 4;         // of 64 rows
constexpr int UNIT = 16;              // bytes, of chunk_start

// A [M, K], cut into chunks.
struct Grid {
    int64_t M, K;
    int rounds;
    Grid(int64_t M, int64_t K) : M(M), K(K), rounds(int((K + COLS - 1) / COLS)) {}
    int64_t chunks() const { return ceil_div(M, STRIPS * ROWS) * STRIPS * rounds; }
};

// Where a chunk stands in A.
struct Place {
    int64_t row, column;
    __device__ Place(const Grid& A, int64_t chunk)
        : row(chunk / A.rounds * ROWS), column(chunk % A.rounds * COLS) {}
};

// The weights of a chunk in shared memory; rows are PADDING weights longer. So many rows are loaded AT_ONCE.
template <int PADDING, int AT_ONCE>
class WeightTile {
    __device__ Shared<uint4> eights() const { return weights_.as<uint4>(); }

  protected:
    static constexpr int ROW = COLS + PADDING;
    Shared<uint16_t> weights_;

  public:
    static constexpr int BYTES = ROWS * ROW * int(sizeof(uint16_t));

    __device__ explicit WeightTile(unsigned char* memory) : weights_(memory) {}

    __device__ void load(const Source& dense, const Place& place) const {
#pragma unroll AT_ONCE
        for (int r = 0; r < ROWS; r++)
            eights().store(r * (ROW / 8) + lane_id(),
                           dense.load8(place.row + r, place.column + 8 * lane_id()));
        __syncwarp();
    }
    __device__ void store(const Target& dense, const Place& place) const {
#pragma unroll 4
        for (int r = 0; r < ROWS; r++)
            dense.store8(place.row + r, place.column + 8 * lane_id(),
                         eights().load(r * (ROW / 8) + lane_id()));
    }
};

// Launches unpack(A, chunks, data, chunk_start, dense) for a matrix, or whole 64 rows of one, whose first chunk is
// that of chunk_start[0]: WARPS of a block have a chunk each. Many are on an SM.
template <int WARPS, class Kernel>
int launch_unpack(Kernel unpack, int warp_bytes, const uint4* data, const int* chunk_start, int64_t M, int64_t K,
                  uint16_t* dense, cudaStream_t stream) {
    Grid A(M, K);
    int64_t chunks = ceil_div(M, ROWS) * A.rounds;  // of those that have rows of it
    auto carveout = cudaFuncAttributePreferredSharedMemoryCarveout;
    auto error = cudaFuncSetAttribute((const void*)unpack, carveout, cudaSharedmemCarveoutMaxShared);
    if (error) return told(error);
    return launch_with(WARPS * warp_bytes, unpack, ceil_div(chunks, WARPS), WARPS * LANES, stream, A, chunks, data,
                       chunk_start, Target(dense, M, K));
}

}  // namespace
}  // namespace lscd::chunk_16x256
