// Zero-row 2:4 on the GPU, the way back: decoding, counting, and what can be wrong with a chunk
// (zero_row_24_streams.cuh).
#include "zero_row_24.cuh"
#include "zero_row_24_streams.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int UNUSED_BYTES = MOST_BYTES / 2 * sizeof(int);
constexpr int WARPS_OF_BLOCK = 16;  // that decode the chunks of 64 rows of a slice by turns

struct Encoding {
    Grid grid;
    const uint8_t* data;
    const int *chunk_start, *first_chunk;
};

// A chunk, and the lane's stream in it.
template <bool PAIRS>
struct Chunk : Streams<PAIRS> {
    Place place;
    int64_t rows;  // of A below the block's first one

    __device__ Chunk(const Encoding& A, const Place& place, int64_t chunk)
        : Streams<PAIRS>(A.data, A.chunk_start, MOST_BYTES, chunk), place(place),
          rows(A.grid.M - place.block.row) {}
    __device__ explicit Chunk(const Encoding& A)
        : Chunk(A, Place(A.grid, A.first_chunk), blockIdx.x) {}

    __device__ int listed(int i) const { return this->half(LISTS + 2 * i); }
    __device__ int column(int group, int i) const {
        if (place.extra) return listed((this->m * GROUPS + group) * 4 + i);
        return place.nth * COLS + 3 * group + i;
    }
    __device__ bool inside(int64_t row, int64_t column) const {
        return row < rows && column < place.block.cols;
    }
    __device__ int first() const { return header_bytes(place.extra); }

    // Calls visit(row in the block, column in the slice, offset) for each value of the lane's
    // stream; returns the offset after the last one.
    template <class Visit>
    __device__ int for_each_value(Visit visit) const {
        return this->for_each_of_stream([&](int row, int group, int index, int at) {
            visit(this->m * TILE_ROWS + row, column(group, index), at);
        });
    }
    __device__ int header_problem() const {
        int size = this->size;
        if (size % UNIT || size > MOST_BYTES || size < first() + TAIL) return SIZE;
        bool sized = this->above_start() == (size / UNIT >> 2 * this->m & 3);
        bool in_slice = true;
        for (int i = lane_id(); place.extra && i < LIST_BYTES / 2; i += LANES)
            in_slice &= listed(i) == NOTHING || (i % 4 < 3 && listed(i) < place.block.cols);
        return first_of(!sized, SIZE, !this->starts_within(first()), START, !in_slice, OWN);
    }
};

template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Encoding A, uint32_t exponent, int* nonfinite, long long* found) {
    extern __shared__ __align__(128) unsigned char memory[];
    Chunk<PAIRS> chunk(A);
    Shared<int> unused(memory);
    int problem = chunk.header_problem();
    if (!problem) problem = metadata_problem(chunk);
    if (!problem) problem = value_problem(chunk, chunk.first(), unused, exponent, nonfinite);
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

// Rows of A that are decoded: 64 of them in each slice are for WARPS_OF_BLOCK grid blocks.
struct Rows {
    int64_t first, row_blocks;
    int64_t grid_blocks(const Grid& grid) const {
        return ceil_div(grid.K, grid.slice_cols) * row_blocks * WARPS_OF_BLOCK;
    }
    __device__ int64_t block(const Grid& grid) const {
        int64_t nth = blockIdx.x / WARPS_OF_BLOCK;
        return nth / row_blocks * grid.row_blocks() + first / ROWS + nth % row_blocks;
    }
};

template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    unpack(const __grid_constant__ Encoding A, const __grid_constant__ Rows rows, uint16_t* dense) {
    int64_t z = rows.block(A.grid);
    int first = ld_global(A.first_chunk + z), end = ld_global(A.first_chunk + z + 1);
    for (int c = first + blockIdx.x % WARPS_OF_BLOCK; c < end; c += WARPS_OF_BLOCK) {
        Chunk<PAIRS> chunk(A, Place(A.grid, z, c - first), c);
        const Block& block = chunk.place.block;
        uint16_t* origin = dense + (block.row - rows.first) * A.grid.K + block.col;
        chunk.for_each_value([&](int64_t row, int64_t column, int at) {
            st_global(origin + row * A.grid.K + column, uint16_t(chunk.half(at)));
        });
    }
}

__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    int used = Streams<false>(data, chunk_start, MOST_BYTES).count();
    used = __reduce_add_sync(ALL_LANES, used);
    if (lane_id() == 0) st_global(nnz + blockIdx.x, used);
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::zero_row_24;

// found: the first chunk that has a problem. nonfinite [1], of zeros: 1 if a value has all bits of
// `exponent`. The offsets are sound.
LSCD_EXPORT int lscd_zero_row_24_check(const uint8_t* data, const int* chunk_start,
                                       const int* first_chunk, int64_t M, int64_t K,
                                       int64_t slice_cols, int64_t pairs, int64_t chunks,
                                       int64_t exponent, int* nonfinite, long long* found,
                                       cudaStream_t stream) {
    Encoding A{{M, K, slice_cols}, data, chunk_start, first_chunk};
    return launch_with(UNUSED_BYTES, pairs ? check<true> : check<false>, chunks, LANES, stream, A,
                       uint32_t(exponent), nonfinite, found);
}

// nnz [chunks]: slots in use.
LSCD_EXPORT int lscd_zero_row_24_count(const uint8_t* data, const int* chunk_start, int64_t chunks,
                                       int* nnz, cudaStream_t stream) {
    return launch(count, chunks, LANES, stream, data, chunk_start, nnz);
}

// Writes the non-zeros, and nothing else, of `rows` rows from `first_row` on into dense [rows, K].
// They are whole 64 rows, but for the last ones of A.
LSCD_EXPORT int lscd_zero_row_24_unpack(const uint8_t* data, const int* chunk_start,
                                        const int* first_chunk, int64_t M, int64_t K,
                                        int64_t slice_cols, int64_t pairs, int64_t /*chunks*/,
                                        int64_t first_row, int64_t rows, uint16_t* dense,
                                        cudaStream_t stream) {
    Encoding A{{M, K, slice_cols}, data, chunk_start, first_chunk};
    Rows part{first_row, ceil_div(rows, int64_t(ROWS))};
    return launch(pairs ? unpack<true> : unpack<false>, part.grid_blocks(A.grid), LANES, stream, A,
                  part, dense);
}
