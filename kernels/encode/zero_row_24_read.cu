// Zero-row 2:4 on the GPU, the way back: a warp for a chunk, a lane for a stream. What can be wrong
// with a chunk: see kernels/cpu/encode/zero_row_24_read.cpp. It is looked for in the same order.
#include "zero_row_24.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int SIZE = 1, START = 2, LIST = 3, LEAVES = 4, INDEX = 5, OUTSIDE = 6, TWICE = 7;
constexpr int ZERO = 8, GARBAGE = 9;
constexpr int UNUSED_BYTES = MOST_BYTES / 2 * sizeof(int);

struct Encoding {
    Grid grid;
    const uint8_t* data;
    const int *chunk_start, *first_chunk;
};

// The chunk of this block, and the lane's stream in it.
template <bool PAIRS>
struct Chunk {
    Place place;
    int m, g;
    const uint8_t* bytes;
    int size;

    __device__ explicit Chunk(const Encoding& A)
        : place(A.grid, A.first_chunk), m(lane_id() / TILE_STREAMS), g(lane_id() % TILE_STREAMS),
          bytes(A.data + START_BYTES * start_of(A, blockIdx.x)),
          size(int(min(START_BYTES * (start_of(A, blockIdx.x + 1) - start_of(A, blockIdx.x)),
                       int64_t(MOST_BYTES + 1)))) {}  // no larger size is sound

    __device__ static int64_t start_of(const Encoding& A, int chunk) {
        return ld_global(A.chunk_start + chunk);
    }
    __device__ uint32_t half(int at) const {
        return ld_global(reinterpret_cast<const uint16_t*>(bytes + at));
    }
    __device__ int stated() const { return half(STARTS + 2 * (TILES * g + m)); }
    __device__ int start() const { return stated() & 0x3fff; }
    __device__ int size_bits() const { return stated() >> 14; }
    __device__ int listed(int i) const { return half(LISTS + 2 * i); }
    __device__ int code(int order) const {
        const auto* words = reinterpret_cast<const uint32_t*>(bytes);
        return ld_global(words + metadata_word(m, g, order)) >> 4 * (order % 8) & 15;
    }
    __device__ int column(int group, int i) const {
        if (place.extra) return listed((m * GROUPS + group) * 4 + i);
        return place.nth * COLS + 3 * group + i;
    }
    // Calls visit(row in the block, column in the slice, offset) for each value of the lane's
    // stream; returns the offset after the last one.
    template <class Visit>
    __device__ int for_each_value(Visit visit) const {
        int at = start();
        for (int order = 0; order < ORDERS; order++) {
            int first = code(order) & 3, second = code(order) >> 2;
            int row = m * TILE_ROWS + row_of(g, order), group = group_of(order);
            bool slot0 = first != 3, slot1 = second != 3;
            if (slot0) visit(row, column(group, first), at);
            if (slot1) visit(row, column(group, second), PAIRS || slot0 ? at + 2 : at);
            at += PAIRS ? 4 * slot1 : 2 * slot0 + 2 * slot1;
        }
        return at;
    }

    // Each of the three: the chunk's first problem of a kind, for all lanes, or 0.

    __device__ int header_problem() const {
        int first = header_bytes(place.extra);
        if (size % UNIT || size > MOST_BYTES || size < first + TAIL) return SIZE;
        bool sized = size_bits() == (size / UNIT >> 2 * m & 3);
        bool sound = first <= start() && start() <= size - TAIL && start() % (PAIRS ? 4 : 2) == 0;
        bool in_slice = true;
        for (int i = lane_id(); place.extra && i < LIST_BYTES / 2; i += LANES)
            in_slice &= listed(i) == NOTHING || (i % 4 < 3 && listed(i) < place.block.cols);
        return first_of(!sized, SIZE, !sound, START, !in_slice, LIST);
    }
    __device__ int metadata_problem(int64_t M) const {
        bool index = false, outside = false;
        int end = for_each_value([&](int row, int column, int) {
            outside |= place.block.row + row >= M || column >= place.block.cols;
        });
        for (int order = 0; order < ORDERS; order++)
            index |= (code(order) & 3) == code(order) >> 2 && code(order) != 15;
        return first_of(end > size - TAIL, LEAVES, index, INDEX, outside, OUTSIDE);
    }
    // `unused` [MOST_BYTES / 2] in shared memory: 0 where a value stands.
    __device__ int value_problem(Shared<int> unused, uint32_t exponent, int* nonfinite) const {
        for (int i = lane_id(); i < size / 2; i += LANES) unused.store(i, 1);
        __syncwarp();
        int values = 0, places = 0;
        bool zero = false, garbage = false, bad = false;
        for_each_value([&](int, int, int at) {
            values++;
            zero |= half(at) == 0;
            bad |= (half(at) & exponent) == exponent;
            unused.store_min(at / 2, 0);
        });
        __syncwarp();
        for (int i = lane_id(); i < size / 2; i += LANES) {
            places += !unused.load(i);
            garbage |= 2 * i >= header_bytes(place.extra) && unused.load(i) && half(2 * i);
        }
        if (bad) st_global(nonfinite, 1);
        bool twice = __reduce_add_sync(ALL_LANES, values) != __reduce_add_sync(ALL_LANES, places);
        return first_of(twice, TWICE, zero, ZERO, garbage, GARBAGE);
    }

  private:
    __device__ static int first_of(bool a, int if_a, bool b, int if_b, bool c, int if_c) {
        int found = a ? if_a : b ? if_b : c ? if_c : 16;
        return __reduce_min_sync(ALL_LANES, found) % 16;
    }
};

template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Encoding A, uint32_t exponent, int* nonfinite, long long* found) {
    extern __shared__ __align__(128) unsigned char memory[];
    Chunk<PAIRS> chunk(A);
    int problem = chunk.header_problem();
    if (!problem) problem = chunk.metadata_problem(A.grid.M);
    if (!problem) problem = chunk.value_problem(Shared<int>(memory), exponent, nonfinite);
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

template <bool PAIRS>
__global__ void __launch_bounds__(LANES)
    unpack(const __grid_constant__ Encoding A, uint16_t* dense) {
    Chunk<PAIRS> chunk(A);
    uint16_t* origin = dense + chunk.place.block.row * A.grid.K + chunk.place.block.col;
    chunk.for_each_value([&](int row, int column, int at) {
        st_global(origin + row * A.grid.K + column, uint16_t(chunk.half(at)));
    });
}

__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    const uint8_t* chunk = data + START_BYTES * int64_t(ld_global(chunk_start + blockIdx.x));
    uint4 words = ld_global(reinterpret_cast<const uint4*>(chunk) + lane_id());
    int used = 0;
    for (uint32_t word : {words.x, words.y, words.z, words.w})
        used += __popc(~(word & word >> 1) & 0x55555555);
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

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT int lscd_zero_row_24_unpack(const uint8_t* data, const int* chunk_start,
                                        const int* first_chunk, int64_t M, int64_t K,
                                        int64_t slice_cols, int64_t pairs, int64_t chunks,
                                        uint16_t* dense, cudaStream_t stream) {
    Encoding A{{M, K, slice_cols}, data, chunk_start, first_chunk};
    return launch(pairs ? unpack<true> : unpack<false>, chunks, LANES, stream, A, dense);
}
