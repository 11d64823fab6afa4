// SpMM on TCA-BME: SpInfer's kernel, whose weights never are dense in memory (section 4).
//
//   a block works on GROUPS GroupTiles, one below the other, x BLOCK_N of C at a time, over its share
//   of A's tiles; each of its 4 warps owns a strip of 16 rows of every GroupTile
//
//   global      bitmaps, values of GroupTile t+2      B of tile t+2
//                 | ld_sparse (cp.async)                | ld_dense (cp.async)
//   shared      bitmaps, values, three buffers        B, three buffers
//                 | decode (two popcounts, two phases)  | smem2tc (ldmatrix)
//   tensor core  mma.m16n8k16 <-------------------------+
//
// Shared memory is sized by the encoding's largest GroupTile, so that no density is out of reach.
#include "../common/dense.cuh"
#include "../common/stages.cuh"
#include "../common/store.cuh"
#include "kernels.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 128, GROUP_M = 64, BITMAPS = 64, STRIPS = 4, BUFFERS = 3;

// A: bitmap, values, gt_offset, strip_offset. p.tile_values: values of the largest GroupTile.
template <class T, int BLOCK_N>
struct TcaBmeKernel {
    // With many columns, fragments of B are worth reading once for two strips.
    static constexpr int GROUPS = BLOCK_N <= 16 ? 1 : 2, BLOCK_M = GROUPS * GROUP_M;
    static constexpr int N_FRAGS = BLOCK_N / 8;
    static constexpr int B_BYTES = BLOCK_N * TILE_K * 2;
    static constexpr int BITMAP_BYTES = BITMAPS * 8, STRIP_BYTES = STRIPS * 4;

    __host__ __device__ static int group_bytes(const Problem& p) {
        return ceil_div(BITMAP_BYTES + STRIP_BYTES + p.tile_values * 2, 128) * 128;
    }
    __host__ __device__ static int buffer_bytes(const Problem& p) {
        return B_BYTES + GROUPS * group_bytes(p);
    }

    // One of a block's GroupTiles in shared memory.
    struct Group {
        Shared<uint64_t> bitmap;
        Shared<int> strip_offset;
        Shared<T> values;
    };

    const Problem& p;
    Share share;
    unsigned char* memory;
    int row_tiles, warp, lane;
    int row, k, index[GROUPS], first[GROUPS], last[GROUPS];  // of the tile to load next
    uint32_t below_low, below_high;  // the bits of a bitmap below bit 2 * lane
    float sum[GROUPS][N_FRAGS][4] = {};

    __device__ TcaBmeKernel(const Problem& p, const Shares& shares, unsigned char* memory)
        : p(p), share(shares, blockIdx.x), memory(memory), row_tiles(shares.row_tiles),
          warp(threadIdx.x / 32), lane(threadIdx.x % 32), row(share.first / row_tiles),
          k(share.first % row_tiles),
          below_low(lane < 16 ? (1u << 2 * lane) - 1 : ~0u),
          below_high(lane < 16 ? 0 : (1u << (2 * lane - 32)) - 1) {}

    __device__ Shared<T> dense(int buffer) const {
        return Shared<T>(memory + buffer * buffer_bytes(p));
    }
    __device__ Group group(int buffer, int g) const {
        unsigned char* at = memory + buffer * buffer_bytes(p) + B_BYTES + g * group_bytes(p);
        return {Shared<uint64_t>(at), Shared<int>(at + BITMAP_BYTES),
                Shared<T>(at + BITMAP_BYTES + STRIP_BYTES)};
    }

    // Where the GroupTiles of the tile to load next lie; known before it is their turn.
    __device__ void locate() {
        const int* offsets = static_cast<const int*>(p.A[2]);
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {  // below the matrix, its last GroupTiles again
            index[g] = min(row * GROUPS + g, ceil_div(p.M, GROUP_M) - 1) * row_tiles + k;
            first[g] = __ldg(offsets + index[g]), last[g] = __ldg(offsets + index[g] + 1);
        }
    }

    __device__ void ld_sparse(int g, Group to) const {
        const uint64_t* bitmaps = static_cast<const uint64_t*>(p.A[0]) + int64_t(index[g]) * BITMAPS;
        const int* strip_offsets = static_cast<const int*>(p.A[3]) + int64_t(index[g]) * STRIPS;
        if (threadIdx.x < BITMAPS / 2)
            cp_async_16(to.bitmap, threadIdx.x * 2, bitmaps + threadIdx.x * 2);
        else if (threadIdx.x == BITMAPS / 2)
            cp_async_16(to.strip_offset, 0, strip_offsets);
        const T* from = static_cast<const T*>(p.A[1]) + first[g];
        for (int i = threadIdx.x * 8; i < last[g] - first[g]; i += THREADS * 8)
            cp_async_16(to.values, i, from + i);
    }

    // Where the values of the strip's 16 8x8 tiles start, a lane each: every one of the first 16 lanes
    // counts one bitmap, and a scan gives every run's start.
    __device__ int run_starts(Group group) const {
        int mine = lane < 16 ? __popcll(group.bitmap.load(warp * 16 + lane)) : 0, end = mine;
#pragma unroll
        for (int d = 1; d < 16; d *= 2) {
            int below = __shfl_up_sync(~0u, end, d);
            if (lane >= d) end += below;
        }
        return group.strip_offset.load(warp) + end - mine;
    }

    // Two neighbours of an 8x8 tile, bits 2 lane and 2 lane + 1, from the values of its run, which
    // start at `base`: MaskedPopCount finds the first, the second comes right after it.
    __device__ uint32_t decode(uint64_t bits, Shared<T> values, int base) const {
        uint32_t low = uint32_t(bits), high = uint32_t(bits >> 32);
        int at = base + __popc(low & below_low) + __popc(high & below_high);
        uint32_t pair = (lane < 16 ? low : high) >> (2 * lane % 32);
        Shared<uint16_t> halves = values.template as<uint16_t>();
        uint32_t first = pair & 1 ? halves.load(at) : 0;
        uint32_t second = pair & 2 ? halves.load(at + (pair & 1)) : 0;
        return first | second << 16;
    }

    // Fragments of 16 columns of A: four 8x8 tiles.
    __device__ void decode(uint32_t (&a)[4], Group group, int starts, int k16) const {
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int base = __shfl_sync(~0u, starts, k16 * 4 + q);
            a[q] = decode(group.bitmap.load(warp * 16 + k16 * 4 + q), group.values, base);
        }
    }

    // Without decode, zeros are multiplied.
    __device__ void multiply(int buffer, bool decodes, bool multiplies) {
        int starts[GROUPS];
#pragma unroll
        for (int g = 0; decodes && g < GROUPS; g++) starts[g] = run_starts(group(buffer, g));
#pragma unroll
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a[GROUPS][4] = {}, b[N_FRAGS][2];
#pragma unroll
            for (int g = 0; decodes && g < GROUPS; g++)
                decode(a[g], group(buffer, g), starts[g], k16);
            if (!multiplies) continue;
            load_b(b, dense(buffer), k16);
#pragma unroll
            for (int j = 0; j < N_FRAGS; j++)
#pragma unroll
                for (int g = 0; g < GROUPS; g++) mma_m16n8k16<T>(sum[g][j], a[g], b[j]);
        }
    }

    // The sums of a row of tiles; new ones begin.
    __device__ void store(int row, int n0) {
        RowOfSums<BLOCK_M>(p, share, row, row_tiles).template store<T, GROUP_M>(p, sum, warp * 16, n0);
        clear(sum);
    }

    // One barrier a tile: behind it, tile t is there for all, and everyone is done with tile t-1,
    // whose buffer tile t+2 takes.
    __device__ void run(int n0) {
        Stages stages{p, share};
        int left = row_tiles - k;  // tiles of the row, from t on
        auto prefetch = [&](int t, int buffer) {
            if (t < share.last) {
#pragma unroll
                for (int g = 0; g < GROUPS; g++)
                    if (stages.run(Stage::ld_sparse, t)) ld_sparse(g, group(buffer, g));
                if (stages.run(Stage::ld_dense, t))
                    ld_dense<BLOCK_N, THREADS>(p, k, n0, dense(buffer));
                if (++k == row_tiles) k = 0, row++;
                if (t + 1 < share.last) locate();
            }
            cp_async_commit();
        };
        locate();
        wait_for_previous_grid();
        prefetch(share.first, 0);
        prefetch(share.first + 1, 1);
        for (int t = share.first, buffer = 0; t < share.last; t++) {
            cp_async_wait<1>();
            __syncthreads();
            prefetch(t + 2, buffer == 0 ? 2 : buffer - 1);
            multiply(buffer, stages.run(Stage::decode, t), stages.run(Stage::smem2tc, t));
            buffer = buffer == 2 ? 0 : buffer + 1;
            if (t + 1 == share.last) let_next_grid_begin();
            if (--left == 0 || t + 1 == share.last) store(t / row_tiles, n0), left = row_tiles;
        }
    }
};

// Blocks that must fit on an SM (0: the compiler's choice).
constexpr int min_blocks(int block_n) { return block_n <= 16 ? 9 : block_n == 64 ? 3 : 0; }

template <class T, int BLOCK_N>
__global__ void __launch_bounds__(THREADS, min_blocks(BLOCK_N)) tca_bme(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    TcaBmeKernel<T, BLOCK_N> kernel(p, Shares(p), memory);
    kernel.run(blockIdx.y * BLOCK_N);
}

template <class T, int BLOCK_N>
Config config(const Problem& p) {
    using Kernel = TcaBmeKernel<T, BLOCK_N>;
    return {(const void*)tca_bme<T, BLOCK_N>, Kernel::BLOCK_M, BLOCK_N, THREADS,
            BUFFERS * Kernel::buffer_bytes(p)};
}

template <class T>
Config config_for(const Problem& p) {
    if (p.N <= 8) return config<T, 8>(p);
    if (p.N <= 16) return config<T, 16>(p);
    if (p.N <= 32) return config<T, 32>(p);
    Config wide = config<T, 128>(p);
    return p.N <= 64 || wide.shared_bytes > SMALLEST_SHARED_BYTES ? config<T, 64>(p) : wide;
}

}  // namespace

Config tca_bme_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config_for<__half>(p) : config_for<__nv_bfloat16>(p);
}

}  // namespace lscd
