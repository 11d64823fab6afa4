// SpMM on zero-row 2:4 for sm_90: one product, how its chunks are shared out, and the pieces of the
// kernels. kernels/cpu/encode/zero_row_24.h says how the bytes lie, hopper.md why.
#pragma once
#include "../common/ptx.cuh"
#include "../common/problem.cuh"
#include "../common/store.cuh"
#include "../common/zero_row_24.cuh"

// Whether code is compiled for the one architecture that has all the instructions. On others kernels
// trap, which backends/cuda.py does not let happen.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LSCD_SM90 1
#else
#define LSCD_SM90 0
#endif

namespace lscd {

constexpr int PIECE_ROWS = 64, PIECE_COLS = 48;  // of a chunk, or half of one: tiles of 16 x 48, below each other
// What a warp has of a block is a segment. Its sums are quads, as lanes have them: rows g and g + 8 of a tile,
// columns n and n + 1; from pair to pair of columns, tile to tile, g to g.
constexpr int PAIR_QUADS = PIECE_ROWS / 2;
__host__ __device__ constexpr int quads_in(int columns) { return columns / 2 * PAIR_QUADS; }
constexpr int LEVEL_STRIDE = 3, LEVEL_COLS = LEVEL_STRIDE * PIECE_COLS;  // of a chunk of level 1
// The row of zeros of B, 64 columns wide; for nested chunks, whose steps have their own banks, more of them.
constexpr int ZERO_LINE = 128, ZERO_BYTES = 3 * ZERO_LINE;

// Chunks [first, last) of a warp, in block `block` = slice * row_blocks + row block at first. What a
// warp has of a block is a segment: the sums of its first one go to partial[segment]. The block's
// chunks begin at `begin` and end at ends[0], the next block's at ends[1]; copy i of the warp begins at
// starts[i], in 16 bytes. Where the last segment is of other warps of the thread block, too, `merge`
// says which (Merged). All that a warp must know to begin comes by one load.
struct __align__(64) WarpShare {
    int32_t first, last, block, segment, begin, ends[2], merge, starts[8];

    // Places of these numbers.
    static constexpr int FIRST = 0, LAST = 1, BLOCK = 2, SEGMENT = 3, BEGIN = 4, ENDS = 5, MERGE = 7;
    static constexpr int STARTS = 8;
};
// Copies of a warp under way. With 16 warps three keep memory busy; five take 4 to 10 % longer.
constexpr int MOST_STAGES = 3;
// A bulk copy lies in its stage as far behind a multiple of LINE as in memory: lines of memory stay
// lines of shared memory. Else copies alone take 10 to 25 % longer.
constexpr int LINE = 128;

// A: data, chunk_start (in 16 bytes), first_chunk; partial [passes][most_segments][BLOCK_N / 2][PAIR_QUADS] of
// quads, where a pass is BLOCK_N columns of C.
struct HopperProblem : Problem {
    int32_t slice_cols, slices, row_blocks;
    int32_t levels, kind;
    int32_t block_n, warps;            // of a thread block
    int32_t blocks_per_slice;          // thread blocks
    int32_t copy;                      // chunks that a bulk copy takes along
    int32_t stages, stage_bytes;       // of each warp's ring
    int32_t most_segments;
    const WarpShare* shares;           // [slices * blocks_per_slice][warps]
    const int32_t* segments;           // [slices * row_blocks + 1]: first segment of each block
    int32_t documented;                // whether metadata is only what PTX promises to select
    int32_t relu;                      // whether negative sums become 0
    const void* bias;                  // [M], added to sums before that; null: none

    __host__ __device__ const uint8_t* data() const { return static_cast<const uint8_t*>(A[0]); }
    __host__ __device__ const int32_t* chunk_start() const { return static_cast<const int32_t*>(A[1]); }
    __host__ __device__ const int32_t* first_chunk() const { return static_cast<const int32_t*>(A[2]); }
};

// A record of a table, a number in each lane of a warp: one load brings all of it.
template <class Record>
struct LaneNumbers {
    static constexpr int COUNT = sizeof(Record) / sizeof(int32_t);
    static_assert(COUNT <= 32);
    int mine;

    __device__ LaneNumbers(const Record* record, int lane)
        : mine(lane < COUNT ? __ldg(reinterpret_cast<const int32_t*>(record) + lane) : 0) {}
    __device__ int operator[](int place) const { return __shfl_sync(~0u, mine, place); }
};

// An address that all lanes share, as the compiler knows of a reduction: in a uniform register.
__device__ __forceinline__ Address uniform_address(Address at) { return __reduce_or_sync(~0u, at); }
// A condition that all lanes share, as the compiler knows of a vote: it branches without a place for lanes
// to meet again.
__device__ __forceinline__ bool uniform(bool condition) { return __any_sync(~0u, condition); }

// ld_sparse: a bulk copy of A's data from `start` to `end`, in 16 bytes, by this lane or, where a whole WARP
// asks, by one of its lanes.
template <bool WARP>
__device__ __forceinline__ void ld_sparse(Address to, const uint8_t* data, int start, int end,
                                          Address barrier) {
    const uint8_t* from = data + int64_t(start) * 16;
    uint32_t bytes = (end - start) * 16;
    if (WARP) warp_bulk_copy(to, from, bytes, barrier, evict_first());
    else lane_bulk_copy(to, from, bytes, barrier, evict_first());
}

// --- what happens to sums before they are rounded: a bias is added, then comes the maximum with 0 ---

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// Of row m. A grid before this one may write it: only behind wait_for_previous_grid.
template <class T, class P>
__device__ float bias_of(const P& p, int m) {
    return p.bias ? to_float(ld_global(static_cast<const T*>(p.bias) + m)) : 0;
}
template <class P>
__device__ float finished(const P& p, float sum, float bias) {
    sum += bias;
    return p.relu && sum < 0 ? 0 : sum;
}

__host__ __device__ constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }

// Warps of a block: as many as have registers for their sums, and shared memory for two of their copies.
constexpr int warps_of(int block_n, Kind kind) {
    if (block_n == 16 && kind == NESTED) return 12;
    return block_n <= 16 ? 16 : block_n == 32 ? 12 : 8;
}

// Blocks of add_segments that wait beside a block of the product, for which they begin with it: where few sums
// leave them registers, and the backend shared memory (SUMS_BYTES of backends/hopper.py).
constexpr int waiting(int block_n, Kind kind) {
    return block_n > 16 ? 0 : block_n == 8 || kind == SIXES || kind == NESTED ? 2 : 1;
}
constexpr int SUMS_THREADS = 128, SUMS_REGISTERS = 64;
// Registers of a thread of the product: those that are left.
constexpr int registers_of(int block_n, Kind kind) {
    int left = 65536 - waiting(block_n, kind) * SUMS_THREADS * SUMS_REGISTERS;
    int each = left / (32 * warps_of(block_n, kind)) / 8 * 8;
    return each < 255 ? each : 255;
}

// Shared memory of a block: mbarriers, WarpShare::merge of each warp, zeros, the slice of B as [k][n], the
// warps' rings.
constexpr int DENSE_READY = 0, BARRIERS = DENSE_READY + 8, DENSE = 1024, ZEROS = DENSE - ZERO_BYTES;
constexpr int MERGES_OF_WARPS = BARRIERS + MOST_STAGES * warps_of(8, PAIRS) * 8;
static_assert(MERGES_OF_WARPS + warps_of(8, PAIRS) * 4 <= ZEROS);
// What every launch asks for as its limit: it belongs to the kernel, and matrices that share one in
// several threads or in one graph need different sizes.
constexpr int MOST_SHARED_BYTES = 227 * 1024;
static_assert(MOST_SHARED_BYTES / (8 * 2) <= 32767, "lists of columns are read as signed numbers");

// Rows of B: all that chunks reach, and whole pieces of HopperDense; those beyond the slice are zeros. For nested
// chunks each eight columns stand by themselves, behind rows of zeros of their own.
__host__ __device__ inline int dense_rows(const HopperProblem& p) {
    return round_up(p.levels ? round_up(p.slice_cols, LEVEL_COLS) : p.slice_cols, 32);
}
__host__ __device__ inline int dense_bytes(const HopperProblem& p, int block_n) {
    int further = p.kind == NESTED ? block_n / 8 - 1 : 0;
    return dense_rows(p) * block_n * 2 + further * ZERO_BYTES;
}

// --- launchers ---

cudaError_t launch_hopper(const HopperProblem& p, cudaStream_t stream);

// Whether mma.sp selects as zero-row 2:4 needs it: see hopper_select.cu.
cudaError_t launch_select(int32_t* wrong, cudaStream_t stream);

}  // namespace lscd
