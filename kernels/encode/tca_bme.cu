// TCA-BME on the GPU (SpInfer, section 4; drawing in kernels/cpu/encode/tca_bme.cpp).
//
//   a block: one GroupTile 64x64        a warp: one strip 16x64        a lane: 4 x 8 weights
//   +---- strip 0 ----+                 row  0 | lane 0 | .. | lane 7  |   rows lane / 8 + 4 i,
//   +---- strip 1 ----+                 row  1 | lane 8 | .. | lane 15 |   i < 4,
//   +---- strip 2 ----+                 ..                                 columns 8 (lane mod 8)
//   +---- strip 3 ----+                 row  4 | lane 0 | ..               and seven more
//
// So each load of a lane is one byte of a bitmap; bitmaps 2 c and 2 c + 1 of a strip are the 8x8 tiles
// of column c. Dense weights are read twice: to mark them, and, once the offsets are known, to pack
// them in shared memory, from where a GroupTile's values leave 16 bytes at a time.
#include "weights.cuh"

namespace lscd {
namespace {

constexpr int GROUP = 64, STRIPS = 4, STRIP_ROWS = 16, THREADS = STRIPS * LANES;
constexpr int GROUP_BITMAPS = 64, STRIP_BITMAPS = 16, STEPS = 4;
// Shared memory: the values of a GroupTile, then how many each strip has.
constexpr int PACKED_BYTES = GROUP * GROUP * sizeof(uint16_t);
constexpr int SHARED_BYTES = PACKED_BYTES + STRIPS * sizeof(int);

int64_t groups_of(int64_t M, int64_t K) { return ceil_div(M, GROUP) * ceil_div(K, GROUP); }

// The weights of one lane: rows row, row + 4, row + 8, row + 12, eight columns from col on.
struct Place {
    int64_t row, col;
    __device__ explicit Place(int64_t K) {
        int64_t groups_k = ceil_div(K, GROUP);
        row = blockIdx.x / groups_k * GROUP + warp_id() * STRIP_ROWS + lane_id() / 8;
        col = blockIdx.x % groups_k * GROUP + lane_id() % 8 * 8;
    }
};

__device__ uint64_t joined(uint32_t low, uint32_t high) { return low | uint64_t(high) << 32; }

__global__ void __launch_bounds__(THREADS) mark(Source dense, ulonglong2* bitmap) {
    Place at(dense.K);
    uint32_t rows[STEPS];  // of each bitmap, four rows
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        rows[i] = nonzero_mask(dense.load8(at.row + 4 * i, at.col)) << 8 * (lane_id() / 8);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        rows[i] |= __shfl_xor_sync(ALL_LANES, rows[i], 8);
        rows[i] |= __shfl_xor_sync(ALL_LANES, rows[i], 16);
    }
    int64_t strip = int64_t(blockIdx.x) * STRIPS + warp_id();
    if (lane_id() < 8)
        st_global(bitmap + strip * STRIP_BITMAPS / 2 + lane_id(),
                  ulonglong2{joined(rows[0], rows[1]), joined(rows[2], rows[3])});
}

__global__ void __launch_bounds__(THREADS) count(const ulonglong2* bitmap, int64_t strips, int* nnz) {
    int64_t strip = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (strip >= strips) return;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < STRIP_BITMAPS / 2; i++) {
        ulonglong2 two = ld_global(bitmap + strip * STRIP_BITMAPS / 2 + i);
        sum += __popcll(two.x) + __popcll(two.y);
    }
    st_global(nnz + strip, sum);
}

// Where the values of a lane's weights lie among those of the GroupTile.
struct Runs {
    uint64_t bits;  // lanes 0 to 15: a bitmap of the strip,
    int first;      // and its first value
    int nnz;        // of the GroupTile

    struct Row {
        uint32_t mask;  // of the eight weights that have a value
        int first;
    };

    __device__ Runs(const uint64_t* bitmap, Shared<int> nnz_of_strip) : nnz(0) {
        int64_t strip = int64_t(blockIdx.x) * STRIPS + warp_id();
        bits = lane_id() < STRIP_BITMAPS ? ld_global(bitmap + strip * STRIP_BITMAPS + lane_id()) : 0;
        int own = __popcll(bits), end = inclusive_scan(own);
        if (lane_id() == LANES - 1) nnz_of_strip.store(warp_id(), end);
        __syncthreads();
        first = end - own;
#pragma unroll
        for (int s = 0; s < STRIPS; s++) {
            if (s < warp_id()) first += nnz_of_strip.load(s);
            nnz += nnz_of_strip.load(s);
        }
    }

    // Of the lane's row in step i; all lanes of the warp call it.
    __device__ Row row(int i) const {
        int bitmap = lane_id() % 8 * 2 + i / 2, shift = 8 * (i % 2 * 4 + lane_id() / 8);
        uint64_t of = __shfl_sync(ALL_LANES, bits, bitmap);
        int start = __shfl_sync(ALL_LANES, first, bitmap);
        return {uint32_t(of >> shift) & 0xff, start + __popcll(of & ((uint64_t(1) << shift) - 1))};
    }
};

__global__ void __launch_bounds__(THREADS)
    pack(Source dense, const uint64_t* bitmap, const int* gt_offset, uint16_t* values) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint16_t> packed(memory);
    Shared<int> counts(memory + PACKED_BYTES);
    Place at(dense.K);
    uint4 weights[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; i++) weights[i] = dense.load8(at.row + 4 * i, at.col);
    Runs runs(bitmap, counts);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        Runs::Row row = runs.row(i);
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (row.mask >> e & 1) packed.store(row.first++, uint16_t(half_of(weights[i], e)));
    }
    int vectors = int(ceil_div(runs.nnz, 8));
    if (runs.nnz + int(threadIdx.x) < 8 * vectors) packed.store(runs.nnz + threadIdx.x, 0);
    __syncthreads();
    uint4* out = reinterpret_cast<uint4*>(values + ld_global(gt_offset + blockIdx.x));
    for (int v = threadIdx.x; v < vectors; v += THREADS) st_global(out + v, packed.as<uint4>().load(v));
}

__global__ void __launch_bounds__(THREADS)
    unpack(const uint64_t* bitmap, const int* gt_offset, const uint16_t* values, Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint16_t> packed(memory);
    Shared<int> counts(memory + PACKED_BYTES);
    int start = ld_global(gt_offset + blockIdx.x), end = ld_global(gt_offset + blockIdx.x + 1);
    const uint4* in = reinterpret_cast<const uint4*>(values + start);
    for (int v = threadIdx.x; v < (end - start) / 8; v += THREADS)
        packed.as<uint4>().store(v, ld_global(in + v));
    Runs runs(bitmap, counts);  // its barrier is also that of the values
    Place at(dense.K);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        Runs::Row row = runs.row(i);
        uint32_t weights[8];
#pragma unroll
        for (int e = 0; e < 8; e++) weights[e] = row.mask >> e & 1 ? packed.load(row.first++) : 0;
        dense.store8(at.row + 4 * i, at.col,
                     make_uint4(weights[0] | weights[1] << 16, weights[2] | weights[3] << 16,
                                weights[4] | weights[5] << 16, weights[6] | weights[7] << 16));
    }
}

// Bitmap of the first `rows` rows and `cols` columns of an 8x8 tile; both may be out of 0..8.
__device__ uint64_t corner_mask(int64_t rows, int64_t cols) {
    if (rows <= 0 || cols <= 0) return 0;
    uint64_t line = (1u << min(cols, int64_t(8))) - 1, all_rows = line * 0x0101010101010101;
    return rows >= 8 ? all_rows : all_rows & ((uint64_t(1) << 8 * rows) - 1);
}

// A warp checks one GroupTile; what it may find is said in kernels/cpu/encode/tca_bme.cpp.
__global__ void __launch_bounds__(THREADS)
    check(const uint64_t* bitmap, const int* gt_offset, const uint16_t* values, int64_t M, int64_t K,
          long long* found) {
    int64_t group = int64_t(blockIdx.x) * STRIPS + warp_id(), groups_k = ceil_div(K, GROUP);
    if (group >= ceil_div(M, GROUP) * groups_k) return;
    int64_t rows = M - group / groups_k * GROUP, cols = K - group % groups_k * GROUP;
    bool outside = false, zero = false, padded = false;
    int nnz = 0;
    for (int b = lane_id(); b < GROUP_BITMAPS; b += LANES) {
        uint64_t bits = ld_global(bitmap + group * GROUP_BITMAPS + b);
        int tile_row = b / STRIP_BITMAPS * 2 + b % 2, tile_col = b / 4 % 4 * 2 + b / 2 % 2;
        outside |= (bits & ~corner_mask(rows - 8 * tile_row, cols - 8 * tile_col)) != 0;
        nnz += __popcll(bits);
    }
    nnz = __reduce_add_sync(ALL_LANES, nnz);
    int start = ld_global(gt_offset + group), vectors = (ld_global(gt_offset + group + 1) - start) / 8;
    const uint4* run = reinterpret_cast<const uint4*>(values + start);
    for (int v = lane_id(); v < vectors; v += LANES) {
        uint32_t present = nonzero_mask(ld_global(run + v)), wanted = (1u << min(8, max(0, nnz - 8 * v))) - 1;
        zero |= (wanted & ~present) != 0;
        padded |= (present & ~wanted) != 0;
    }
    int problem = outside ? 1 : zero ? 2 : padded ? 3 : 16;
    problem = __reduce_min_sync(ALL_LANES, problem);
    if (lane_id() == 0) report(found, group, problem % 16);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// bitmap [64 * groups]: pass one.
LSCD_EXPORT int lscd_tca_bme_mark(const uint16_t* dense, int64_t M, int64_t K, ulonglong2* bitmap,
                                  cudaStream_t stream) {
    return launch(mark, groups_of(M, K), THREADS, stream, Source(dense, M, K), bitmap);
}

// nnz [strips]: non-zeros of each run of 16 bitmaps.
LSCD_EXPORT int lscd_tca_bme_count(const ulonglong2* bitmap, int64_t strips, int* nnz,
                                   cudaStream_t stream) {
    return launch(count, ceil_div(strips, THREADS), THREADS, stream, bitmap, strips, nnz);
}

// values [gt_offset[groups]]: pass two.
LSCD_EXPORT int lscd_tca_bme_pack(const uint16_t* dense, int64_t M, int64_t K, const uint64_t* bitmap,
                                  const int* gt_offset, uint16_t* values, cudaStream_t stream) {
    return launch_with(SHARED_BYTES, pack, groups_of(M, K), THREADS, stream, Source(dense, M, K),
                       bitmap, gt_offset, values);
}

// Writes the weights of dense [M, K].
LSCD_EXPORT int lscd_tca_bme_unpack(const uint64_t* bitmap, const int* gt_offset,
                                    const uint16_t* values, int64_t M, int64_t K, uint16_t* dense,
                                    cudaStream_t stream) {
    return launch_with(SHARED_BYTES, unpack, groups_of(M, K), THREADS, stream, bitmap, gt_offset,
                       values, Target(dense, M, K));
}

// found: the first GroupTile that has a problem.
LSCD_EXPORT int lscd_tca_bme_check(const uint64_t* bitmap, const int* gt_offset,
                                   const uint16_t* values, int64_t M, int64_t K, long long* found,
                                   cudaStream_t stream) {
    return launch(check, ceil_div(groups_of(M, K), STRIPS), THREADS, stream, bitmap, gt_offset, values,
                  M, K, found);
}
