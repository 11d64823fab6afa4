// SpMM on TCA-BME: SpInfer's kernel, whose weights never are dense in memory (SPEC E.2).
//
//   a block owns 64 x BLOCK_N of C and a part of K; each of its 4 warps owns a strip of 16 rows
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
    static constexpr int N_FRAGS = BLOCK_N / 8;
    static constexpr int B_BYTES = BLOCK_N * TILE_K * 2, BITMAP_BYTES = BITMAPS * 8;

    __host__ __device__ static int values_bytes(const Problem& p) {
        return ceil_div(p.tile_values * 2, 128) * 128;
    }
    __host__ __device__ static int stage_bytes(const Problem& p) {
        return B_BYTES + BITMAP_BYTES + values_bytes(p);
    }

    const Problem& p;
    int group_m, tiles_k, warp, lane;
    float sum[1][N_FRAGS][4] = {};

    __device__ TcaBmeKernel(const Problem& p, int group_m)
        : p(p), group_m(group_m), tiles_k(ceil_div(p.K, TILE_K)), warp(threadIdx.x / 32),
          lane(threadIdx.x % 32) {}

    __device__ void ld_sparse(int k_tile, Shared<uint64_t> bitmap, Shared<T> values) const {
        int g = group_m * tiles_k + k_tile;
        const uint64_t* bitmaps = static_cast<const uint64_t*>(p.A[0]) + g * BITMAPS;
        if (threadIdx.x < BITMAPS / 2)
            cp_async_16(bitmap, threadIdx.x * 2, bitmaps + threadIdx.x * 2);
        const int* offset = static_cast<const int*>(p.A[2]) + g;
        int first = __ldg(offset), count = __ldg(offset + 1) - first;
        const T* from = static_cast<const T*>(p.A[1]) + first;
        for (int i = threadIdx.x * 8; i < count; i += THREADS * 8) cp_async_16(values, i, from + i);
    }

    // Number of set bits below bit 2 * lane: MaskedPopCount.
    __device__ int set_before(uint64_t bits) const {
        uint32_t low = uint32_t(bits), high = uint32_t(bits >> 32);
        uint32_t below = (1u << (2 * lane % 32)) - 1;
        return lane < 16 ? __popc(low & below) : __popc(low) + __popc(high & below);
    }

    // Two neighbours of an 8x8 tile, bits 2 lane and 2 lane + 1, from the values of its run.
    __device__ uint32_t decode(uint64_t bits, Shared<T> values, int base) const {
        int at = base + set_before(bits);
        uint32_t pair = uint32_t(bits >> (2 * lane)) & 3;
        Shared<uint16_t> halves = values.template as<uint16_t>();
        uint32_t first = pair & 1 ? halves.load(at) : 0;
        uint32_t second = pair & 2 ? halves.load(at + (pair & 1)) : 0;
        return first | second << 16;
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

    // Without decode, zeros are multiplied.
    __device__ void multiply(Shared<uint64_t> bitmap, Shared<T> values, Shared<T> b, int strip_offset,
                             bool decodes, bool multiplies) {
        int start = decodes ? run_starts(bitmap, strip_offset) : 0;
#pragma unroll
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a[4] = {}, b_frag[N_FRAGS][2];
            if (multiplies) load_b(b_frag, b, k16);
#pragma unroll
            for (int q = 0; decodes && q < 4; q++) {
                int base = __shfl_sync(~0u, start, k16 * 4 + q);
                a[q] = decode(bitmap.load(warp * 16 + k16 * 4 + q), values, base);
            }
#pragma unroll
            for (int j = 0; multiplies && j < N_FRAGS; j++)
                mma_m16n8k16<T>(sum[0][j], a, b_frag[j]);
        }
    }

    __device__ void run(unsigned char* memory, int n0, int part) {
        KRange range(p.K, part, p.split_k);
        Stages stages{p, range};
        int stage = stage_bytes(p);
        auto b = [&](int t) { return Shared<T>(memory + t % 2 * stage); };
        auto bitmap = [&](int t) { return Shared<uint64_t>(memory + t % 2 * stage + B_BYTES); };
        auto values = [&](int t) {
            return Shared<T>(memory + t % 2 * stage + B_BYTES + BITMAP_BYTES);
        };
        const int* strip_offsets = static_cast<const int*>(p.A[3]);
        auto strip_offset = [&](int t) {
            int tile = stages.source(Stage::ld_sparse, t);
            return t < range.last ? __ldg(strip_offsets + (group_m * tiles_k + tile) * 4 + warp) : 0;
        };
        auto prefetch = [&](int t) {
            if (t < range.last) {
                if (stages.run(Stage::ld_sparse, t)) ld_sparse(t, bitmap(t), values(t));
                if (stages.run(Stage::ld_dense, t)) ld_dense<BLOCK_N, THREADS>(p, t, n0, b(t));
            }
            cp_async_commit();
        };
        prefetch(range.first);
        int offset = strip_offset(range.first);
        for (int t = range.first; t < range.last; t++) {
            prefetch(t + 1);
            int next_offset = strip_offset(t + 1);
            cp_async_wait<1>();
            __syncthreads();
            multiply(bitmap(t), values(t), b(t), offset, stages.run(Stage::decode, t),
                     stages.run(Stage::smem2tc, t));
            __syncthreads();
            offset = next_offset;
        }
        store_c<T>(p, sum, group_m * GROUP_M + warp * 16, n0, part);
    }
};

template <class T, int BLOCK_N>
__global__ void __launch_bounds__(THREADS) tca_bme(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    TcaBmeKernel<T, BLOCK_N> kernel(p, blockIdx.x);
    kernel.run(memory, blockIdx.y * BLOCK_N, blockIdx.z);
}

template <class T, int BLOCK_N>
Config config(const Problem& p) {
    return {(const void*)tca_bme<T, BLOCK_N>, GROUP_M, BLOCK_N, THREADS,
            2 * TcaBmeKernel<T, BLOCK_N>::stage_bytes(p)};
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
