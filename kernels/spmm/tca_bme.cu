// SpMM on TCA-BME: SpInfer's kernel, whose weights never are dense in memory (SPEC E.2).
//
//   a block owns GROUPS GroupTiles, one below the other, x BLOCK_N of C, and a part of K; each of its
//   4 warps owns a strip of 16 rows of every GroupTile
//
//   global      bitmaps, values of GroupTile t+1      B of tile t+1
//                 | ld_sparse (cp.async)                | ld_dense (cp.async)
//   shared      bitmaps, values, two buffers          B, two buffers
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

constexpr int THREADS = 128, GROUP_M = 64, BITMAPS = 64;

// A: bitmap, values, gt_offset, strip_offset. p.tile_values: values of the largest GroupTile.
template <class T, int BLOCK_N>
struct TcaBmeKernel {
    // With many columns, fragments of B are worth reading once for two strips.
    static constexpr int GROUPS = BLOCK_N <= 16 ? 1 : 2, BLOCK_M = GROUPS * GROUP_M;
    static constexpr int N_FRAGS = BLOCK_N / 8;
    static constexpr int B_BYTES = BLOCK_N * TILE_K * 2, BITMAP_BYTES = BITMAPS * 8;

    __host__ __device__ static int group_bytes(const Problem& p) {
        return BITMAP_BYTES + ceil_div(p.tile_values * 2, 128) * 128;
    }
    __host__ __device__ static int stage_bytes(const Problem& p) {
        return B_BYTES + GROUPS * group_bytes(p);
    }

    // One of a block's GroupTiles in shared memory.
    struct Group {
        Shared<uint64_t> bitmap;
        Shared<T> values;
    };

    const Problem& p;
    unsigned char* memory;
    int tiles_k, warp, lane;
    uint32_t below_low, below_high;  // the bits of a bitmap below bit 2 * lane
    float sum[GROUPS][N_FRAGS][4] = {};

    __device__ TcaBmeKernel(const Problem& p, unsigned char* memory)
        : p(p), memory(memory), tiles_k(ceil_div(p.K, TILE_K)), warp(threadIdx.x / 32),
          lane(threadIdx.x % 32), below_low(lane < 16 ? (1u << 2 * lane) - 1 : ~0u),
          below_high(lane < 16 ? 0 : (1u << (2 * lane - 32)) - 1) {}

    __device__ Shared<T> dense(int t) const { return Shared<T>(memory + t % 2 * stage_bytes(p)); }
    __device__ Group group(int t, int g) const {
        unsigned char* at = memory + t % 2 * stage_bytes(p) + B_BYTES + g * group_bytes(p);
        return {Shared<uint64_t>(at), Shared<T>(at + BITMAP_BYTES)};
    }
    // Place of a GroupTile in the encoding; those below the matrix are the last ones again.
    __device__ int index(int t, int g) const {
        return min(int(blockIdx.x) * GROUPS + g, ceil_div(p.M, GROUP_M) - 1) * tiles_k + t;
    }

    __device__ void ld_sparse(int t, int g) const {
        const uint64_t* bitmaps = static_cast<const uint64_t*>(p.A[0]) + index(t, g) * BITMAPS;
        auto [bitmap, values] = group(t, g);
        if (threadIdx.x < BITMAPS / 2)
            cp_async_16(bitmap, threadIdx.x * 2, bitmaps + threadIdx.x * 2);
        const int* offset = static_cast<const int*>(p.A[2]) + index(t, g);
        int first = __ldg(offset), count = __ldg(offset + 1) - first;
        const T* from = static_cast<const T*>(p.A[1]) + first;
        for (int i = threadIdx.x * 8; i < count; i += THREADS * 8) cp_async_16(values, i, from + i);
    }

    // Where the values of the strip's 16 8x8 tiles start, a lane each: every one of the first 16 lanes
    // counts one bitmap, and a scan gives every run's start.
    __device__ int run_starts(Shared<uint64_t> bitmap, int strip_offset) const {
        int mine = lane < 16 ? __popcll(bitmap.load(warp * 16 + lane)) : 0, end = mine;
#pragma unroll
        for (int d = 1; d < 16; d *= 2) {
            int below = __shfl_up_sync(~0u, end, d);
            if (lane >= d) end += below;
        }
        return strip_offset + end - mine;
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
    __device__ void multiply(int t, const int (&strip_offset)[GROUPS], const Stages& stages) {
        int starts[GROUPS];
        bool decodes = stages.run(Stage::decode, t);
#pragma unroll
        for (int g = 0; decodes && g < GROUPS; g++)
            starts[g] = run_starts(group(t, g).bitmap, strip_offset[g]);
#pragma unroll
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a[GROUPS][4] = {}, b[N_FRAGS][2];
#pragma unroll
            for (int g = 0; decodes && g < GROUPS; g++) decode(a[g], group(t, g), starts[g], k16);
            if (!stages.run(Stage::smem2tc, t)) continue;
            load_b(b, dense(t), k16);
#pragma unroll
            for (int j = 0; j < N_FRAGS; j++)
#pragma unroll
                for (int g = 0; g < GROUPS; g++) mma_m16n8k16<T>(sum[g][j], a[g], b[j]);
        }
    }

    __device__ void run(int n0, int part) {
        KRange range(p.K, part, p.split_k);
        Stages stages{p, range};
        const int* strip_offsets = static_cast<const int*>(p.A[3]);
        int offset[GROUPS], next_offset[GROUPS];
        auto prefetch = [&](int t) {
            if (t < range.last) {
                int source = stages.source(Stage::ld_sparse, t);
#pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    if (stages.run(Stage::ld_sparse, t)) ld_sparse(t, g);
                    next_offset[g] = __ldg(strip_offsets + index(source, g) * 4 + warp);
                }
                if (stages.run(Stage::ld_dense, t)) ld_dense<BLOCK_N, THREADS>(p, t, n0, dense(t));
            }
            cp_async_commit();
        };
        prefetch(range.first);
        for (int t = range.first; t < range.last; t++) {
#pragma unroll
            for (int g = 0; g < GROUPS; g++) offset[g] = next_offset[g];
            prefetch(t + 1);
            cp_async_wait<1>();
            __syncthreads();
            multiply(t, offset, stages);
            __syncthreads();
        }
        store_c<T>(p, sum, blockIdx.x * BLOCK_M + warp * 16, n0, part, GROUP_M);
    }
};

template <class T, int BLOCK_N>
__global__ void __launch_bounds__(THREADS) tca_bme(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    TcaBmeKernel<T, BLOCK_N> kernel(p, memory);
    kernel.run(blockIdx.y * BLOCK_N, blockIdx.z);
}

template <class T, int BLOCK_N>
Config config(const Problem& p) {
    using Kernel = TcaBmeKernel<T, BLOCK_N>;
    return {(const void*)tca_bme<T, BLOCK_N>, Kernel::BLOCK_M, BLOCK_N, THREADS,
            2 * Kernel::stage_bytes(p)};
}

template <class T>
Config config_for(const Problem& p) {
    if (p.N <= 8) return config<T, 8>(p);
    if (p.N <= 16) return config<T, 16>(p);
    if (p.N <= 32) return config<T, 32>(p);
    if (p.N <= 64) return config<T, 64>(p);
    return config<T, 128>(p);
}

}  // namespace

Config tca_bme_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config_for<__half>(p) : config_for<__nv_bfloat16>(p);
}

}  // namespace lscd
