// Zero-row 2:4 on the GPU, the way back: decoding, counting, and what can be wrong with a chunk
// (zero_row_24_streams.cuh).
#include "zero_row_24.cuh"
#include "zero_row_24_decode.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int UNUSED_BYTES = most_bytes(NESTED) / 2 * sizeof(int);
constexpr int EXTRA_WARPS = 4;
template <Kind KIND>
using Tile = DenseTile<ROWS, pieces_of(KIND) * piece_cols(KIND)>;

struct Encoding {
    Grid grid;
    const uint8_t* data;
    const int *chunk_start, *first_chunk;

    __device__ Extent extent(int64_t chunk) const {
        return Extent(data, chunk_start, most_bytes(grid.kind), chunk);
    }
};

// A chunk, and the lane's stream in it.
template <Kind KIND>
struct Chunk : Streams<KIND> {
    Place place;
    int64_t rows;  // of A below the block's first one

    __device__ explicit Chunk(const Encoding& A)
        : Streams<KIND>(A.extent(blockIdx.x)), place(A.grid, A.first_chunk),
          rows(A.grid.M - place.block.row) {
        this->pieces = place.pieces;
    }

    __device__ int listed(int i) const { return this->half(header_bytes(KIND) + 2 * i); }
    __device__ int column(int group, int i) const {
        if (place.extra) return listed((this->m * groups_of(KIND) + group) * 4 + i);
        return place.block.column(place.nth, first_column(KIND, group) + i);
    }
    __device__ bool misplaces() const { return Streams<KIND>::misplaces(!place.extra); }
    __device__ bool inside(int64_t row, int64_t column) const {
        return row < rows && column < place.block.cols;
    }
    __device__ int first() const { return values_at(KIND, place.extra, place.pieces); }

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
        if (size % UNIT || size > most_bytes(KIND) || size < chunk_bytes(KIND, first())) return SIZE;
        bool sized = this->above_start() == stated_size(KIND, size, this->m);
        bool in_slice = true;
        for (int i = lane_id(); place.extra && i < list_bytes(KIND) / 2; i += LANES)
            in_slice &= listed(i) == NOTHING || (i % 4 < 3 && listed(i) < place.block.cols);
        return first_of(!sized, SIZE, !this->starts_within(first()), START, !in_slice, OWN);
    }
};

template <Kind KIND>
__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Encoding A, uint32_t exponent, int* nonfinite, long long* found) {
    extern __shared__ __align__(128) unsigned char memory[];
    Chunk<KIND> chunk(A);
    Shared<int> unused(memory);
    int problem = chunk.header_problem();
    if (!problem) problem = metadata_problem(chunk);
    if (!problem) problem = value_problem(chunk, chunk.first(), unused, exponent, nonfinite);
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

// Rows of A that are decoded: row blocks from `first` on; thread blocks for each of their blocks.
struct Rows {
    int64_t first;
    unsigned slices, of_each;
};

// The block that a thread block has a part of.
struct Part {
    unsigned slice, row_block;
    int nth;
    int64_t z;
    Block block;
    __device__ Part(const Grid& grid, const Rows& rows)
        : slice(blockIdx.x / rows.of_each % rows.slices),
          row_block(blockIdx.x / rows.of_each / rows.slices), nth(blockIdx.x % rows.of_each),
          z(slice * grid.row_blocks() + rows.first + row_block),
          block(grid, slice, rows.first + row_block) {}
    __device__ int64_t row() const { return int64_t(row_block) * ROWS; }  // of those decoded
};

// Up to three regular chunks of a block side by side, and their chunk of level 1. A regular chunk
// has all weights of its place but those that are elsewhere: it is written whole, zeros included.
template <Kind KIND>
__global__ void __launch_bounds__(warps_of(1) * LANES)
    unpack_fixed(const __grid_constant__ Encoding A, int largest, Rows rows, Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    Part part(A.grid, rows);
    const Block& block = part.block;
    int number = REGULAR_WARPS * part.nth + warp_id(), level = block.regular + part.nth;
    bool regular = warp_id() < REGULAR_WARPS && number < block.regular;
    bool has_level = level < block.fixed;
    int pieces = pieces_of(KIND) > 1 && regular ? block.pieces(number) : 1;
    Workplace<Tile<KIND>> here(memory, largest);
    if (regular || (has_level && warp_id() == REGULAR_WARPS)) {
        int chunk = ld_global(A.first_chunk + part.z) + (regular ? number : level);
        begin_copy(here.chunk, A.extent(chunk));
    }
    Decoder<KIND> decoder(lane_id());
    wait_for_copy();
    if (regular) here.tile.fill(Groups<KIND>(here.chunk, decoder, pieces));
    wait_for_warps(A.grid.levels);
    if constexpr (KIND != NESTED)
        if (has_level) here.tile.add_level(Groups<KIND>(here.level, decoder));
    wait_for_warps(A.grid.levels);
    if (regular)
        here.tile.store(pieces * piece_cols(KIND), [&](int m, int r, int k, uint4 eight) {
            dense.store8(part.row() + m * TILE_ROWS + r, block.col + number * block.width + k, eight);
        });
}

// Then the weights of extra chunks, of which each thread block takes every so many-th.
template <Kind KIND>
__global__ void __launch_bounds__(LANES)
    unpack_extra(const __grid_constant__ Encoding A, Rows rows, Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint4> chunk(memory);
    Shared<uint16_t> columns = chunk.as<uint16_t>() + header_bytes(KIND) / 2;
    Decoder<KIND> decoder(lane_id());
    Part part(A.grid, rows);
    uint16_t* origin = dense.at(part.row(), part.block.col);
    int first = ld_global(A.first_chunk + part.z) + part.block.fixed;
    int end = ld_global(A.first_chunk + part.z + 1);
    for (int c = first + part.nth; c < end; c += rows.of_each) {
        begin_copy(chunk, A.extent(c));
        wait_for_copy();
        Groups<KIND> groups(chunk, decoder);
#pragma unroll 1
        for (int q = 0; q < groups_of(KIND) / 4; q++) {
            if (q == 4) groups.advance();
            groups.for_each_weight(q, [&](int m, int half, int q, int index, uint32_t weight) {
                int row = m * TILE_ROWS + half * 8 + lane_id() / 4;
                int group = m * groups_of(KIND) + q * 4 + lane_id() % 4;
                int column = columns.load(4 * group + index);
                st_global(origin + row * A.grid.K + column, uint16_t(weight));
            });
        }
        __syncwarp();
    }
}

template <Kind KIND>
int unpack(const Encoding& A, int64_t largest, int64_t first, const Target& dense,
           cudaStream_t stream) {
    int64_t thirds = ceil_div(A.grid.slice_cols, int64_t(REGULAR_WARPS * A.grid.width()));
    unsigned slices = unsigned(A.grid.slices());
    Rows rows{first, slices, unsigned(thirds)}, extra{first, slices, EXTRA_WARPS};
    int64_t blocks = ceil_div(dense.M, ROWS) * slices;
    int error = launch_decoder<Tile<KIND>, most_bytes(KIND)>(
        unpack_fixed<KIND>, blocks * thirds, A.grid.levels, largest, stream, A, int(largest), rows, dense);
    if (error) return error;
    return launch_with(int(largest), unpack_extra<KIND>, blocks * EXTRA_WARPS, LANES, stream, A,
                       extra, dense);
}

template <Kind KIND>
__global__ void __launch_bounds__(LANES)
    count(const __grid_constant__ Encoding A, int* nnz) {
    int used = __reduce_add_sync(ALL_LANES, Chunk<KIND>(A).count());
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
                                       int64_t slice_cols, int64_t levels, int64_t kind,
                                       int64_t chunks, int64_t exponent, int* nonfinite,
                                       long long* found, cudaStream_t stream) {
    Encoding A{{M, K, slice_cols, levels, Kind(kind)}, data, chunk_start, first_chunk};
    return with_kind(kind, [&](auto constant) {
        return launch_with(UNUSED_BYTES, check<decltype(constant)::value>, chunks, LANES, stream, A,
                           uint32_t(exponent), nonfinite, found);
    });
}

// nnz [chunks]: slots in use.
LSCD_EXPORT int lscd_zero_row_24_count(const uint8_t* data, const int* chunk_start,
                                       const int* first_chunk, int64_t M, int64_t K,
                                       int64_t slice_cols, int64_t levels, int64_t kind,
                                       int64_t chunks, int* nnz, cudaStream_t stream) {
    Encoding A{{M, K, slice_cols, levels, Kind(kind)}, data, chunk_start, first_chunk};
    return with_kind(kind, [&](auto constant) {
        return launch(count<decltype(constant)::value>, chunks, LANES, stream, A, nnz);
    });
}

// Writes `rows` rows of A from `first_row` on to dense [rows, K]. They are whole 64 rows, but for
// the last ones of A, whose largest chunk has `largest` bytes.
LSCD_EXPORT int lscd_zero_row_24_unpack(const uint8_t* data, const int* chunk_start,
                                        const int* first_chunk, int64_t M, int64_t K,
                                        int64_t slice_cols, int64_t levels, int64_t kind,
                                        int64_t /*chunks*/, int64_t largest, int64_t first_row,
                                        int64_t rows, uint16_t* dense, cudaStream_t stream) {
    Encoding A{{M, K, slice_cols, levels, Kind(kind)}, data, chunk_start, first_chunk};
    Target target(dense, rows, K);
    return with_kind(kind, [&](auto constant) {
        return unpack<decltype(constant)::value>(A, largest, first_row / ROWS, target, stream);
    });
}
