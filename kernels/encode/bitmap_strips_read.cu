// Bitmaps in strips on the GPU: counting non-zeros, and what can be wrong with a chunk. A warp has a chunk,
// and each lane its own weights; problems are looked for in the order of their numbers, as
// kernels/cpu/encode/bitmap_strips_read.cpp does.
#include "bitmap_strips.cuh"

namespace lscd {
namespace {

using namespace bitmap;

constexpr int SIZE = 1, BANK = 2, LINES_OFF = 3, OUTSIDE = 4, ZERO = 5, GARBAGE = 6;
constexpr int NONE = 16;

// The bytes of a chunk; those of its bitmap and banks, or lines, only if its size, or their number, is sound.
class Bytes {
    const uint8_t* bytes_;

    __device__ uint32_t word(int at) const {
        return ld_global(reinterpret_cast<const uint32_t*>(bytes_ + at));
    }

  public:
    int size;  // no more than MOST_BYTES + 1

    __device__ Bytes(const uint8_t* data, const int* chunk_start) {
        int64_t start = ld_global(chunk_start + blockIdx.x), end = ld_global(chunk_start + blockIdx.x + 1);
        bytes_ = data + UNIT * start;
        size = int(min(UNIT * (end - start), int64_t(MOST_BYTES + 1)));
    }
    __device__ bool size_is_sound() const {
        return size >= LINES && size <= MOST_BYTES && (size - LINES) % LINE == 0;
    }
    __device__ int lines() const { return (size - LINES) / LINE; }

    // Of the lane.
    __device__ uint32_t bits(int w) const { return word(4 * (WORDS * lane_id() + w)); }
    __device__ int count(int half) const { return __popc(bits(HALF * half)) + __popc(bits(HALF * half + 1)); }
    __device__ uint32_t bank() const { return ld_global(bytes_ + BANKS + lane_id()); }
    __device__ uint32_t value(int at) const {
        return ld_global(reinterpret_cast<const uint16_t*>(bytes_ + LINES) + at);
    }
    // Non-zeros of bank `lane`.
    __device__ int nonzeros() const {
        int found = 0;
        for (int i = 0; i < lines(); i++)
            found += __popc(nonzero_mask(word(LINES + LINE * i + 4 * lane_id())));
        return found;
    }
    __device__ uint32_t padding() const {
        int at = PADDING + 4 * lane_id();
        return at < LINES ? word(at) : 0;
    }
};

__device__ bool banks_are_sound(const Bytes& chunk) {
    uint32_t bank = chunk.bank();
    return __reduce_or_sync(ALL_LANES, bank < LANES ? 1u << bank : 0) == ~0u;
}

// Of the lane's values. rows, cols: of A, from the chunk's first on.
__device__ int values_problem(const Bytes& chunk, int64_t rows, int64_t cols) {
    int problem = NONE, bank = int(chunk.bank()), above = __shfl_sync(ALL_LANES, chunk.count(0), bank);
    Positions positions(lane_id(), 0);
    for (int w = 0; w < WORDS; w++) {
        uint32_t bits = chunk.bits(w);
        if (w == HALF) positions = Positions(bank, above);
        for (int i = 0; i < REGISTERS; i++)
            for (int h = 0; h < 2; h++) {
                if (!(bits >> bit_of(i, h) & 1)) continue;
                bool outside = row_of(i) >= rows || column_of(w, i) + h >= cols;
                bool zero = !chunk.value(positions.next());
                problem = min(problem, outside ? OUTSIDE : zero ? ZERO : NONE);
            }
    }
    return problem;
}

// In lines, which have as many non-zeros as there are bits, or before them.
__device__ bool any_garbage(const Bytes& chunk) {
    int unused = chunk.nonzeros() - chunk.count(0) - chunk.count(1);
    return __reduce_add_sync(ALL_LANES, unused) != 0 || __any_sync(ALL_LANES, chunk.padding() != 0);
}

__device__ int problem_of(const Bytes& chunk, int64_t rows, int64_t cols) {
    if (!chunk.size_is_sound()) return SIZE;
    if (!banks_are_sound(chunk)) return BANK;
    if (lines_needed(chunk.count(0), chunk.count(1), int(chunk.bank())) != chunk.lines()) return LINES_OFF;
    int problem = values_problem(chunk, rows, cols);
    return any_garbage(chunk) ? min(problem, GARBAGE) : problem;
}

__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Grid A, const uint8_t* data, const int* chunk_start,
          long long* found) {
    Place place(A, blockIdx.x);
    int problem = problem_of(Bytes(data, chunk_start), A.M - place.row, A.K - place.column);
    problem = __reduce_min_sync(ALL_LANES, problem) % NONE;
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    Bytes chunk(data, chunk_start);
    int found = __reduce_add_sync(ALL_LANES, chunk.count(0) + chunk.count(1));
    if (lane_id() == 0) st_global(nnz + blockIdx.x, found);
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::bitmap;

// found: the first chunk that has a problem. The offsets are sound.
LSCD_EXPORT int lscd_bitmap_strips_check(const uint8_t* data, const int* chunk_start, int64_t M, int64_t K,
                                         long long* found, cudaStream_t stream) {
    Grid A(M, K);
    return launch(check, A.chunks(), LANES, stream, A, data, chunk_start, found);
}

// nnz [chunks].
LSCD_EXPORT int lscd_bitmap_strips_count(const uint8_t* data, const int* chunk_start, int64_t chunks,
                                         int* nnz, cudaStream_t stream) {
    return launch(count, chunks, LANES, stream, data, chunk_start, nnz);
}
