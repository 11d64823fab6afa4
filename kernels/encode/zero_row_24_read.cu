// Zero-row 2:4 on the GPU, the way back: decoding, counting, and what can be wrong with a chunk
// (zero_row_24_streams.cuh).
#include "zero_row_24.cuh"
#include "zero_row_24_streams.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int UNUSED_BYTES = MOST_BYTES / 2 * sizeof(int);
constexpr int EXTRA_WARPS = 4;

struct Encoding {
    Grid grid;
    const uint8_t* data;
    const int *chunk_start, *first_chunk;
};

// A chunk, and the lane's stream in it.
template <bool PAIRS, class Bytes = InGlobal>
struct Chunk : Streams<PAIRS, Bytes> {
    Place place;
    int64_t rows;  // of A below the block's first one

    template <class... Copy>
    __device__ Chunk(const Encoding& A, const Place& place, int64_t chunk, Copy... copy)
        : Streams<PAIRS, Bytes>(Extent(A.data, A.chunk_start, MOST_BYTES, chunk), copy...),
          place(place), rows(A.grid.M - place.block.row) {}
    __device__ explicit Chunk(const Encoding& A)
        : Chunk(A, Place(A.grid, A.first_chunk), blockIdx.x) {}

    __device__ int listed(int i) const { return this->half(header_bytes(PAIRS) + 2 * i); }
    __device__ int column(int group, int i) const {
        if (place.extra) return listed((this->m * GROUPS + group) * 4 + i);
        return place.block.column(place.nth, 3 * group + i);
    }
    __device__ bool inside(int64_t row, int64_t column) const {
        return row < rows && column < place.block.cols;
    }
    __device__ int first() const { return values_at(PAIRS, place.extra); }

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

struct UnpackMemory {
    uint4 chunk[MOST_BYTES / sizeof(uint4)];
    Tiles::Memory tiles;
};

// Decoding row blocks of A from `first` on. A regular chunk has all weights of its place but those
// that are in extra chunks, and is written whole, zeros included.
template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    unpack_regular(const __grid_constant__ Encoding A, int64_t first, Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<UnpackMemory*>(memory);
    Tiles tiles(shared.tiles);
    tiles.clear();
    int64_t across = ceil_div(A.grid.K, int64_t(COLS)), in_slice = A.grid.slice_cols / COLS;
    int64_t row_block = blockIdx.x / across, col = blockIdx.x % across;
    int64_t z = col / in_slice * A.grid.row_blocks() + first + row_block;
    Place place(A.grid, z, int(col % in_slice));
    int64_t number = ld_global(A.first_chunk + z) + place.nth;
    Chunk<PAIRS, InShared> chunk(A, place, number, in_shared(shared.chunk));
    chunk.for_each_value([&](int row, int column, int at) {
        tiles.put(row, column - place.nth * COLS, chunk.half(at));
    });
    tiles.store([&](int m, int r, int k, uint4 eight) {
        dense.store8(row_block * ROWS + m * TILE_ROWS + r, col * COLS + k, eight);
    });
}

// Then the weights of chunks that are not regular, with EXTRA_WARPS for those of 64 rows of a slice.
template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    unpack_extra(const __grid_constant__ Encoding A, int64_t first, Target dense) {
    int64_t row_blocks = ceil_div(dense.M, int64_t(ROWS)), nth = blockIdx.x / EXTRA_WARPS;
    int64_t row_block = nth % row_blocks, slice = nth / row_blocks;
    int64_t z = slice * A.grid.row_blocks() + first + row_block;
    int begin = ld_global(A.first_chunk + z), end = ld_global(A.first_chunk + z + 1);
    int at_first = begin + Block(A.grid, z).regular + blockIdx.x % EXTRA_WARPS;
    for (int c = at_first; c < end; c += EXTRA_WARPS) {
        Chunk<PAIRS> chunk(A, Place(A.grid, z, c - begin), c);
        uint16_t* origin = dense.at(row_block * ROWS, chunk.place.block.col);
        chunk.for_each_value([&](int64_t row, int64_t column, int at) {
            st_global(origin + row * A.grid.K + column, uint16_t(chunk.half(at)));
        });
    }
}

template <bool PAIRS>
int unpack(const Encoding& A, int64_t first, const Target& dense, cudaStream_t stream) {
    int64_t row_blocks = ceil_div(dense.M, int64_t(ROWS));
    int64_t chunks = row_blocks * ceil_div(A.grid.K, int64_t(COLS));
    int64_t blocks = row_blocks * ceil_div(A.grid.K, A.grid.slice_cols);
    int error = launch_with(sizeof(UnpackMemory), unpack_regular<PAIRS>, chunks, LANES, stream, A,
                            first, dense);
    if (error) return error;
    return launch(unpack_extra<PAIRS>, blocks * EXTRA_WARPS, LANES, stream, A, first, dense);
}

template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    int used = Streams<PAIRS>(Extent(data, chunk_start, MOST_BYTES)).count();
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
                                       int64_t slice_cols, int64_t levels, int64_t pairs,
                                       int64_t chunks, int64_t exponent, int* nonfinite,
                                       long long* found, cudaStream_t stream) {
    Encoding A{{M, K, slice_cols, levels}, data, chunk_start, first_chunk};
    return launch_with(UNUSED_BYTES, pairs ? check<true> : check<false>, chunks, LANES, stream, A,
                       uint32_t(exponent), nonfinite, found);
}

// nnz [chunks]: slots in use.
LSCD_EXPORT int lscd_zero_row_24_count(const uint8_t* data, const int* chunk_start, int64_t pairs,
                                       int64_t chunks, int* nnz, cudaStream_t stream) {
    return launch(pairs ? count<true> : count<false>, chunks, LANES, stream, data, chunk_start,
                  nnz);
}

// Writes `rows` rows of A from `first_row` on to dense [rows, K]. They are whole 64 rows, but for
// the last ones of A.
LSCD_EXPORT int lscd_zero_row_24_unpack(const uint8_t* data, const int* chunk_start,
                                        const int* first_chunk, int64_t M, int64_t K,
                                        int64_t slice_cols, int64_t levels, int64_t pairs,
                                        int64_t /*chunks*/, int64_t first_row, int64_t rows,
                                        uint16_t* dense, cudaStream_t stream) {
    Encoding A{{M, K, slice_cols, levels}, data, chunk_start, first_chunk};
    Target target(dense, rows, K);
    return (pairs ? unpack<true> : unpack<false>)(A, first_row / ROWS, target, stream);
}
