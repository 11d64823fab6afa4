// Chunks whose lanes have banks on the GPU: counting non-zeros, and what can be wrong with a chunk. A warp has a chunk,
// and each lane its own weights; problems are looked for in the order of kernels/cpu/encode/banks_read.h.
#pragma once
#include "banks.cuh"

namespace lscd {
namespace {

using namespace banks;

constexpr int SIZE = 1, BANK = 2, OTHER_LINES = 3, OUTSIDE = 4, ZERO = 5, GARBAGE = 6, CODE = 7;
constexpr int NONE = 16;

// An array of T in global memory, as Shared is one in shared memory.
template <class T>
class Global {
    const T* data_;

  public:
    __device__ explicit Global(const T* data) : data_(data) {}
    __device__ T load(int i) const { return ld_global(data_ + i); }
    __device__ Global operator+(int i) const { return Global(data_ + i); }
    template <class U>
    __device__ Global<U> as() const {
        return Global<U>(reinterpret_cast<const U*>(data_));
    }
};

// The bytes of a chunk; those of its places and banks, or lines, only if its size, or their number, is sound.
template <class Layout>
class Bytes {
    static constexpr int PADDING = Layout::BANKS + LANES;  // up to lines
    using Places = typename Layout::Places;
    using Reader = typename Layout::template Reader<Global>;

    Global<uint4> bytes_;

    __device__ uint32_t word(int at) const { return bytes_.as<uint32_t>().load(at / 4); }

  public:
    int size;  // no more than MOST_BYTES + 1

    __device__ Bytes(const uint8_t* data, const int* chunk_start)
        : bytes_(reinterpret_cast<const uint4*>(data) + ld_global(chunk_start + blockIdx.x)) {
        int64_t start = ld_global(chunk_start + blockIdx.x), end = ld_global(chunk_start + blockIdx.x + 1);
        size = int(min(UNIT * (end - start), int64_t(MOST_BYTES<Layout> + 1)));
    }
    __device__ bool size_is_sound() const {
        return size >= Layout::LINES && size > Layout::BANKS && size <= MOST_BYTES<Layout> && size % LINE == 0;
    }
    __device__ int lines() const { return (size - Layout::LINES) / LINE; }

    // Of the lane.
    __device__ Places places() const { return Places(bytes_); }
    __device__ uint32_t bank() const { return bytes_.as<uint8_t>().load(Layout::BANKS + lane_id()); }
    __device__ Reader reader(int bank, int position) const { return Reader(bytes_, bank, position); }
    // Non-zeros of bank `lane`.
    __device__ int nonzeros() const {
        int found = 0;
        for (int i = Layout::begin(lane_id()) / 2; i < lines(); i++)
            found += __popc(nonzero_mask(word(Layout::LINES + LINE * i + 4 * lane_id())));
        return found;
    }
    __device__ uint32_t padding() const {
        int at = PADDING + 4 * lane_id();
        return at < Layout::LINES ? word(at) : 0;
    }
};

template <class Layout>
__device__ bool banks_are_sound(const Bytes<Layout>& chunk) {
    uint32_t bank = chunk.bank();
    return __reduce_or_sync(ALL_LANES, bank < LANES ? 1u << bank : 0) == ~0u;
}

// Of the lane's values; `above`: where the first half of the second one's bank ends. rows, cols: of A, from the chunk's
// first on.
template <class Layout>
__device__ int values_problem(const Bytes<Layout>& chunk, const typename Layout::Places& places, int bank, int above,
                              int64_t rows, int64_t cols) {
    int problem = NONE;
    auto reader = chunk.reader(lane_id(), Layout::begin(lane_id()));
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        if (w == HALF) reader = chunk.reader(bank, above);
#pragma unroll 4
        for (int i = 0; i < REGISTERS; i++) {
            uint32_t pair = reader.pair(places, w, i);
            for (int h = 0; h < 2; h++) {
                if (!places.has(w, i, h)) continue;
                bool outside = row_of(i) >= rows || column_of(w, i) + h >= cols;
                problem = min(problem, outside ? OUTSIDE : !half_of(pair, h) ? ZERO : NONE);
            }
        }
    }
    return problem;
}

// In lines, which have as many non-zeros as places have values, or before them.
template <class Layout>
__device__ bool any_garbage(const Bytes<Layout>& chunk, const typename Layout::Places& places) {
    int unused = chunk.nonzeros() - places.values(0) - places.values(1);
    return __reduce_add_sync(ALL_LANES, unused) != 0 || __any_sync(ALL_LANES, chunk.padding() != 0);
}

template <class Layout>
__device__ int problem_of(const Bytes<Layout>& chunk, int64_t rows, int64_t cols) {
    if (!chunk.size_is_sound()) return SIZE;
    if (!banks_are_sound(chunk)) return BANK;
    auto places = chunk.places();
    if (!__all_sync(ALL_LANES, places.are_sound())) return CODE;
    int first = end_of_first<Layout>(places), bank = int(chunk.bank());
    if (lines_needed(first, places.positions(1), bank) != chunk.lines()) return OTHER_LINES;
    int above = __shfl_sync(ALL_LANES, first, bank);
    int problem = values_problem(chunk, places, bank, above, rows, cols);
    return any_garbage(chunk, places) ? min(problem, GARBAGE) : problem;
}

template <class Layout>
__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Grid A, const uint8_t* data, const int* chunk_start,
          long long* found) {
    Place place(A, blockIdx.x);
    int problem = problem_of(Bytes<Layout>(data, chunk_start), A.M - place.row, A.K - place.column);
    problem = __reduce_min_sync(ALL_LANES, problem) % NONE;
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

template <class Layout>
__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    auto places = Bytes<Layout>(data, chunk_start).places();
    int found = __reduce_add_sync(ALL_LANES, places.values(0) + places.values(1));
    if (lane_id() == 0) st_global(nnz + blockIdx.x, found);
}

// found: the first chunk that has a problem. The offsets are sound.
template <class Layout>
int launch_check(const uint8_t* data, const int* chunk_start, int64_t M, int64_t K, long long* found,
                 cudaStream_t stream) {
    Grid A(M, K);
    return launch(check<Layout>, A.chunks(), LANES, stream, A, data, chunk_start, found);
}

// nnz [chunks].
template <class Layout>
int launch_count(const uint8_t* data, const int* chunk_start, int64_t chunks, int* nnz, cudaStream_t stream) {
    return launch(count<Layout>, chunks, LANES, stream, data, chunk_start, nnz);
}

}  // namespace
}  // namespace lscd
