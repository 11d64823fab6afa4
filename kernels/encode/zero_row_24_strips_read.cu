// Zero-row 2:4 in strips on the GPU, the way back: decoding, counting, and what can be wrong with a
// chunk (zero_row_24_streams.cuh).
#include "zero_row_24_streams.cuh"
#include "zero_row_24_strips.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int UNUSED_BYTES = UNIT * MOST_UNITS / 2 * sizeof(int);

__device__ Extent extent(const uint8_t* data, const int* chunk_start, int64_t chunk = blockIdx.x) {
    return Extent(data, chunk_start, UNIT * MOST_UNITS, chunk);
}

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
template <class From = InGlobal>
struct Bytes : Streams<true, From> {
    using Base = Streams<true, From>;
    using Base::above_start, Base::g, Base::m, Base::word;
    uint32_t header;  // steps, and size in 16 bytes << 8

    template <class... Copy>
    __device__ explicit Bytes(const Extent& chunk, Copy... copy) : Base(chunk, copy...) {
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

template <class From = InGlobal>
struct Chunk : Bytes<From> {
    using Base = Bytes<From>;
    using Base::first, Base::for_each_entry, Base::header, Base::m, Base::size;
    const Grid& A;
    Place place;

    template <class... Copy>
    __device__ Chunk(const Grid& A, const Place& place, const Extent& chunk, Copy... copy)
        : Base(chunk, copy...), A(A), place(place) {}

    __device__ bool inside(int64_t row, int64_t column) const { return row < A.M && column < A.K; }

    // Calls visit(row of A, column of A, offset) for each value of the lane's stream and its part
    // of the entries; returns the offset after the stream.
    template <class Visit>
    __device__ int for_each_value(Visit visit) const {
        for_each_entry([&](Entry entry, int, int at) {
            if (entry.used())
                visit(place.row + entry.row(), A.column(place.round, entry.column()), at);
        });
        return this->for_each_of_stream([&](int row, int group, int index, int at) {
            int column = m * TILE_COLS + 3 * group + index;
            visit(place.row + row, A.column(place.round, column), at);
        });
    }
    __device__ int header_problem() const {
        if (size > UNIT * MOST_UNITS || size < ENTRIES + TAIL) return SIZE;
        bool sized = this->header_agrees() && int64_t(header >> 8) * UNIT == size;
        if (!__all_sync(ALL_LANES, sized && first() + TAIL <= size)) return SIZE;
        bool sound = true;
        for_each_entry([&](Entry entry, int place, int) { sound &= entry.in(place); });
        return first_of(false, SIZE, !this->starts_within(first()), START, !sound, OWN);
    }
};

__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Grid A, const uint8_t* data, const int* chunk_start,
          uint32_t exponent, int* nonfinite, long long* found) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<int> unused(memory);
    Chunk<> chunk(A, Place(A), extent(data, chunk_start));
    int problem = chunk.header_problem();
    if (!problem) problem = metadata_problem(chunk);
    if (!problem) problem = value_problem(chunk, chunk.first(), unused, exponent, nonfinite);
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

struct UnpackMemory {
    uint4 chunk[MOST_UNITS];
    Tiles::Memory tiles;
};

// A chunk that is not of level 1 has all weights of its place but those of chunks that are, and is
// written whole, zeros included.
__global__ void __launch_bounds__(LANES)
    unpack_regular(const __grid_constant__ Grid A, const uint8_t* data, const int* chunk_start,
                   Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<UnpackMemory*>(memory);
    Tiles tiles(shared.tiles);
    tiles.clear();
    int nth = int(blockIdx.x % A.regular);
    Place place(A, blockIdx.x / A.regular, A.levels ? nth + nth / 3 : nth);
    Extent stored = extent(data, chunk_start, place.number(A));
    Chunk<InShared> chunk(A, place, stored, in_shared(shared.chunk));
    int64_t first = A.column(place.round, 0);
    chunk.for_each_value([&](int64_t row, int64_t column, int at) {
        int j = int(column - first);
        tiles.put(j / TILE_COLS * TILE_ROWS + int(row - place.row), j % TILE_COLS, chunk.half(at));
    });
    tiles.store([&](int m, int r, int k, uint4 eight) {
        dense.store8(place.row + r, first + m * TILE_COLS + k, eight);
    });
}

// Then those of level 1.
__global__ void __launch_bounds__(LANES)
    unpack_level(const __grid_constant__ Grid A, const uint8_t* data, const int* chunk_start,
                 uint16_t* dense) {
    int levels = A.rounds - A.regular, nth = int(blockIdx.x % levels);
    Place place(A, blockIdx.x / levels, min(4 * nth + 3, A.rounds - 1));
    Chunk<> chunk(A, place, extent(data, chunk_start, place.number(A)));
    chunk.for_each_value([&](int64_t row, int64_t column, int at) {
        st_global(dense + row * A.K + column, uint16_t(chunk.half(at)));
    });
}

__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    Bytes<> chunk(extent(data, chunk_start));
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
    Grid A(M, K, levels);
    return launch_with(UNUSED_BYTES, check, A.chunks(), LANES, stream, A, data, chunk_start,
                       uint32_t(exponent), nonfinite, found);
}

// nnz [chunks]: slots and entries in use.
LSCD_EXPORT int lscd_zero_row_24_strips_count(const uint8_t* data, const int* chunk_start,
                                              int64_t chunks, int* nnz, cudaStream_t stream) {
    return launch(count, chunks, LANES, stream, data, chunk_start, nnz);
}

// Writes A to dense [M, K]: a matrix, or whole 64 rows of one.
LSCD_EXPORT int lscd_zero_row_24_strips_unpack(const uint8_t* data, const int* chunk_start,
                                               int64_t M, int64_t K, int64_t levels,
                                               uint16_t* dense, cudaStream_t stream) {
    Grid A(M, K, levels);
    int64_t strips = A.chunks() / A.rounds, of_levels = A.rounds - A.regular;
    int error = launch_with(sizeof(UnpackMemory), unpack_regular, strips * A.regular, LANES, stream,
                            A, data, chunk_start, Target(dense, M, K));
    if (error || !of_levels) return error;
    return launch(unpack_level, strips * of_levels, LANES, stream, A, data, chunk_start, dense);
}
