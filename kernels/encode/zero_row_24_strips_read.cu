// Zero-row 2:4 in strips on the GPU, the way back: decoding, counting, and what can be wrong with a
// chunk (zero_row_24_streams.cuh).
#include "zero_row_24_decode.cuh"
#include "zero_row_24_strips.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int UNUSED_BYTES = UNIT * MOST_UNITS / 2 * sizeof(int);
using Tile = DenseTile<ROWS, COLS>;

struct Encoding {
    Grid grid;
    const uint8_t* data;
    const int* chunk_start;

    __device__ Extent extent(int64_t chunk) const {
        return Extent(data, chunk_start, UNIT * MOST_UNITS, chunk);
    }
};

struct Entry {
    uint32_t bits;
    __device__ int row() const { return bits >> 24; }
    __device__ int of_b() const { return bits >> 16 & 255; }  // row of B'
    __device__ bool used() const { return of_b() % 4 != 3; }
    __device__ int column() const { return of_b() / 4 * 3 + of_b() % 4; }  // of the chunk
    __device__ bool in(int place) const {
        return used() ? of_b() % PLACES == place && row() < ROWS : bits == no_entry(place);
    }
};

// The bytes of a chunk, wherever it stands in A.
struct Bytes : Streams<PAIRS> {
    uint32_t header;  // steps, and size in 16 bytes << 8

    __device__ explicit Bytes(const Extent& chunk) : Streams(chunk) {
        uint32_t mine = g % 2 ? 0 : uint32_t(above_start()) << (g / 2 * 8 + 2 * m);
        header = __reduce_add_sync(ALL_LANES, mine);  // of different bits
    }
    // The bits above the lane's start are those of the header.
    __device__ bool header_agrees() const {
        return above_start() == int(header >> (g / 2 * 8 + 2 * m) & 3);
    }
    __device__ int steps() const { return header & 255; }
    __device__ int first() const { return ENTRIES + STEP_BYTES * steps(); }  // of the streams

    // Calls visit(entry, place in its step, offset) for the lane's part of them.
    template <class Visit>
    __device__ void for_each_entry(Visit visit) const {
        for (int i = lane_id(); i < PLACES * steps(); i += LANES)
            visit(Entry{word(ENTRIES + 4 * i)}, i % PLACES, ENTRIES + 4 * i);
    }
};

struct Chunk : Bytes {
    const Grid& A;
    Place place;

    __device__ explicit Chunk(const Encoding& A)
        : Bytes(A.extent(blockIdx.x)), A(A.grid), place(A.grid) {}

    __device__ bool inside(int64_t row, int64_t column) const { return row < A.M && column < A.K; }

    // Calls visit(row of A, column of A, offset) for each value of the lane's stream and its part
    // of the entries; returns the offset after the stream.
    template <class Visit>
    __device__ int for_each_value(Visit visit) const {
        for_each_entry([&](Entry entry, int, int at) {
            if (entry.used())
                visit(place.row + entry.row(), A.column(place.round, entry.column()), at);
        });
        return for_each_of_stream([&](int row, int group, int index, int at) {
            int column = m * TILE_COLS + 3 * group + index;
            visit(place.row + row, A.column(place.round, column), at);
        });
    }
    __device__ int header_problem() const {
        if (size > UNIT * MOST_UNITS || size < ENTRIES + TAIL) return SIZE;
        bool sized = header_agrees() && int64_t(header >> 8) * UNIT == size;
        if (!__all_sync(ALL_LANES, sized && first() + TAIL <= size)) return SIZE;
        bool sound = true;
        for_each_entry([&](Entry entry, int place, int) { sound &= entry.in(place); });
        return first_of(false, SIZE, !starts_within(first()), START, !sound, OWN);
    }
};

__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Encoding A, uint32_t exponent, int* nonfinite, long long* found) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<int> unused(memory);
    Chunk chunk(A);
    int problem = chunk.header_problem();
    if (!problem) problem = metadata_problem(chunk);
    if (!problem) problem = value_problem(chunk, chunk.first(), unused, exponent, nonfinite);
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

// Calls put(row, column of the chunk, weight) for the entries of a chunk in shared memory: a thread
// has each `threads`-th from `first` on.
template <class Put>
__device__ void for_each_entry(Shared<uint4> chunk, int first, int threads, Put put) {
    int steps = stated(ld_shared_v2(chunk.address(0) + starts_at(PAIRS))) & 255;
    for (int i = first; i < PLACES * steps; i += threads) {
        Entry entry{chunk.as<uint32_t>().load(ENTRIES / 4 + i)};
        if (entry.used()) put(entry.row(), entry.column(), entry.bits & 0xffff);
    }
}

// Up to three regular chunks of a strip side by side, and their chunk of level 1. A regular chunk
// has all weights of its place but those that are elsewhere: it is written whole, zeros included.
__global__ void __launch_bounds__(warps_of(1) * LANES)
    unpack(const __grid_constant__ Encoding A, int largest, Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned thirds = (A.grid.regular + REGULAR_WARPS - 1) / REGULAR_WARPS;
    int third = blockIdx.x % thirds;
    int64_t strip = blockIdx.x / thirds, row = strip * ROWS;
    int number = REGULAR_WARPS * third + warp_id(), levels = A.grid.levels;
    bool level = warp_id() == REGULAR_WARPS, regular = !level && number < A.grid.regular;
    int round = level ? min(4 * third + 3, A.grid.rounds - 1) : number + levels * third;
    Workplace<Tile> here(memory, largest);
    if (regular || level) begin_copy(here.chunk, A.extent(strip * A.grid.rounds + round));
    Decoder<PAIRS> decoder(lane_id());
    wait_for_copy();
    if (regular) {
        here.tile.fill(Groups<PAIRS>(here.chunk, decoder));
        for_each_entry(here.chunk, lane_id(), LANES, [&](int r, int i, uint32_t weight) {
            here.tile.put(r, warp_id() * COLS + i, weight);
        });
        __syncwarp();
    }
    wait_for_warps(levels);
    if (levels) {
        here.tile.add_level(Groups<PAIRS>(here.level, decoder));
        for_each_entry(here.level, threadIdx.x, blockDim.x, [&](int r, int i, uint32_t weight) {
            here.tile.put(r, 3 * i + 1, weight);
        });
    }
    wait_for_warps(levels);
    if (regular)
        here.tile.store(TILE_COLS, [&](int m, int r, int k, uint4 eight) {
            dense.store8(row + r, int64_t(number) * COLS + m * TILE_COLS + k, eight);
        });
}

__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    Bytes chunk(Extent(data, chunk_start, UNIT * MOST_UNITS));
    int used = chunk.count();
    chunk.for_each_entry([&](Entry entry, int, int) { used += entry.used(); });
    used = __reduce_add_sync(ALL_LANES, used);
    if (lane_id() == 0) st_global(nnz + blockIdx.x, used);
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::zero_row_24;

// found: the first chunk that has a problem. nonfinite [1], of zeros: 1 if a value has all bits of
// `exponent`. The offsets are sound.
LSCD_EXPORT int lscd_zero_row_24_strips_check(const uint8_t* data, const int* chunk_start,
                                              int64_t M, int64_t K, int64_t levels,
                                              int64_t exponent, int* nonfinite, long long* found,
                                              cudaStream_t stream) {
    Encoding A{Grid(M, K, levels), data, chunk_start};
    return launch_with(UNUSED_BYTES, check, A.grid.chunks(), LANES, stream, A, uint32_t(exponent),
                       nonfinite, found);
}

// nnz [chunks]: slots and entries in use.
LSCD_EXPORT int lscd_zero_row_24_strips_count(const uint8_t* data, const int* chunk_start,
                                              int64_t chunks, int* nnz, cudaStream_t stream) {
    return launch(count, chunks, LANES, stream, data, chunk_start, nnz);
}

// Writes A, whose largest chunk has `largest` bytes, to dense [M, K]: a matrix, or whole 64 rows of
// one.
LSCD_EXPORT int lscd_zero_row_24_strips_unpack(const uint8_t* data, const int* chunk_start,
                                               int64_t M, int64_t K, int64_t levels,
                                               int64_t largest, uint16_t* dense,
                                               cudaStream_t stream) {
    Encoding A{Grid(M, K, levels), data, chunk_start};
    int64_t strips = ceil_div(M, ROWS), thirds = ceil_div(A.grid.regular, REGULAR_WARPS);
    return launch_decoder<Tile, UNIT * MOST_UNITS>(unpack, strips * thirds, levels, largest, stream,
                                                   A, int(largest), Target(dense, M, K));
}
