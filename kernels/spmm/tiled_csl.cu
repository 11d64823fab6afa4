// SpMM on Tiled-CSL: Flash-LLM's kernel (section 4.2, Algorithms 1 and 2).
//
//   a block owns BLOCK_M x BLOCK_N of C and a part of K; its 4 warps own BLOCK_M / 4 rows each
//
//   global      words of tile t+1 ..........  B of tile t+1
//                 | gmem2reg                    | ld_dense (cp.async)
//   registers   words                           |
//                 | extract (after rst_smem)    |
//   shared      A dense, two buffers          B, two buffers
//                 | smem2tc (ldmatrix)          |
//   tensor core  mma.m16n8k16 <-----------------+
//
// Words beyond what the registers hold are scattered straight from global memory: no cap on nnz.
#include "../common/dense.cuh"
#include "../common/stages.cuh"
#include "../common/store.cuh"
#include "kernels.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 128, STORED_M = 128, STORED_TILE = STORED_M * TILE_K;

// A: words, tile_offsets.
template <class T, int BLOCK_M, int BLOCK_N>
struct TiledCslKernel {
    static constexpr int TILES = BLOCK_M / STORED_M;  // stored tiles of a block, below each other
    static constexpr int VECTORS = 8;                 // of 4 words, per thread and stored tile
    static constexpr int M_FRAGS = BLOCK_M / 4 / 16, N_FRAGS = BLOCK_N / 8;
    static constexpr int A_ELEMENTS = BLOCK_M * TILE_K, B_ELEMENTS = BLOCK_N * TILE_K;
    static constexpr int SHARED_BYTES = 2 * (A_ELEMENTS + B_ELEMENTS) * 2;

    const Problem& p;
    int tiles_m, tiles_k, first_tile;
    uint4 words[TILES][VECTORS];
    int start[TILES], count[TILES];  // vectors of the tile whose words are in the registers
    float sum[M_FRAGS][N_FRAGS][4] = {};

    __device__ explicit TiledCslKernel(const Problem& p, int block_m)
        : p(p), tiles_m(ceil_div(p.M, STORED_M)), tiles_k(ceil_div(p.K, TILE_K)),
          first_tile(block_m * TILES) {}

    // Plain stores: on an H200 they are faster than the paper's zero-sized cp.async.
    __device__ static void rst_smem(Shared<T> a) {
        Shared<uint4> chunks = a.template as<uint4>();
#pragma unroll
        for (int i = 0; i < A_ELEMENTS / 8; i += THREADS) chunks.store(i + threadIdx.x, uint4{0, 0, 0, 0});
    }

    __device__ void gmem2reg(int k_tile) {
        const int* offsets = static_cast<const int*>(p.A[1]);
        const uint4* vectors = static_cast<const uint4*>(p.A[0]);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            bool exists = TILES == 1 || first_tile + t < tiles_m;
            int tile = (first_tile + t) * tiles_k + k_tile;
            start[t] = exists ? __ldg(offsets + tile) : 0;
            count[t] = exists ? __ldg(offsets + tile + 1) - start[t] : 0;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                int i = v * THREADS + threadIdx.x;
                if (i < count[t]) words[t][v] = __ldg(vectors + start[t] + i);
            }
        }
    }

    __device__ static void scatter(Shared<uint16_t> a, uint32_t word) {
        a.store(word >> 16, uint16_t(word));
    }
    __device__ static void scatter(Shared<uint16_t> a, uint4 four) {
        scatter(a, four.x), scatter(a, four.y), scatter(a, four.z), scatter(a, four.w);
    }

    __device__ void extract(Shared<T> tile) const {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            Shared<uint16_t> a = (tile + t * STORED_TILE).template as<uint16_t>();
#pragma unroll
            for (int v = 0; v < VECTORS; v++)
                if (v * THREADS + threadIdx.x < count[t]) scatter(a, words[t][v]);
            const uint4* vectors = static_cast<const uint4*>(p.A[0]) + start[t];
            for (int i = VECTORS * THREADS + threadIdx.x; i < count[t]; i += THREADS)
                scatter(a, __ldg(vectors + i));
        }
    }

    __device__ static void load_a(uint32_t (&r)[4], Shared<T> a, int row, int k16) {
        int lane = threadIdx.x % 32;
        ldmatrix_x4(r, a, swizzled(row + lane % 16, k16 * 16 + lane / 16 * 8));
    }

    // Few columns: all of A's fragments first, since their loads are what the tensor core waits for.
    // Many columns: one fragment of A at a time, since registers decide how many blocks fit.
    __device__ void smem2tc(Shared<T> a, Shared<T> b) {
        constexpr int AT_ONCE = N_FRAGS <= 4 ? M_FRAGS : 1;
        int row0 = threadIdx.x / 32 * (BLOCK_M / 4);
#pragma unroll
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a_frag[AT_ONCE][4], b_frag[N_FRAGS][2];
            if constexpr (AT_ONCE == 1) load_b(b_frag, b, k16);
#pragma unroll
            for (int first = 0; first < M_FRAGS; first += AT_ONCE) {
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) load_a(a_frag[i], a, row0 + (first + i) * 16, k16);
                if constexpr (AT_ONCE > 1) load_b(b_frag, b, k16);
#pragma unroll
                for (int j = 0; j < N_FRAGS; j++)
#pragma unroll
                    for (int i = 0; i < AT_ONCE; i++)
                        mma_m16n8k16<T>(sum[first + i][j], a_frag[i], b_frag[j]);
            }
        }
    }

    __device__ void run(Shared<T> shared, int n0, int part) {
        KRange range(p.K, part, p.split_k);
        Stages stages{p, range};
        auto a = [&](int t) { return shared + t % 2 * A_ELEMENTS; };
        auto b = [&](int t) { return shared + 2 * A_ELEMENTS + t % 2 * B_ELEMENTS; };
        auto prefetch = [&](int t) {
            if (stages.run(Stage::gmem2reg, t)) gmem2reg(t);
            if (stages.run(Stage::ld_dense, t)) ld_dense<BLOCK_N, THREADS>(p, t, n0, b(t));
            cp_async_commit();
            if (stages.run(Stage::rst_smem, t)) rst_smem(a(t));
        };
        auto settle = [&](int t) {
            __syncthreads();  // rst_smem, of all threads
            if (stages.run(Stage::extract, t)) extract(a(t));
            cp_async_wait<0>();  // ld_dense, of this thread …
            __syncthreads();     // … and of all; extract, too
        };
        if (range.first < range.last) {
            prefetch(range.first);
            settle(range.first);
            for (int t = range.first; t + 1 < range.last; t++) {
                prefetch(t + 1);
                if (stages.run(Stage::smem2tc, t)) smem2tc(a(t), b(t));
                settle(t + 1);
            }
            smem2tc(a(range.last - 1), b(range.last - 1));
        }
        int row0 = first_tile * STORED_M + threadIdx.x / 32 * (BLOCK_M / 4);
        store_c<T>(p, sum, row0, n0, part);
    }
};

// Blocks that must fit on an SM (0: the compiler's choice), as measured best on an H200. With few
// columns, registers that let loads run ahead are worth more than blocks; with many, the sums take so
// many that blocks must be asked for.
constexpr int min_blocks(int block_n) {
    return block_n <= 16 ? 1 : block_n <= 32 ? 0 : block_n <= 64 ? 3 : 2;
}

template <class T, int BLOCK_M, int BLOCK_N>
__global__ void __launch_bounds__(THREADS, min_blocks(BLOCK_N)) tiled_csl(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    TiledCslKernel<T, BLOCK_M, BLOCK_N> kernel(p, blockIdx.x);
    kernel.run(Shared<T>(memory), blockIdx.y * BLOCK_N, blockIdx.z);
}

template <class T, int BLOCK_M, int BLOCK_N>
Config config() {
    using Kernel = TiledCslKernel<T, BLOCK_M, BLOCK_N>;
    return {(const void*)tiled_csl<T, BLOCK_M, BLOCK_N>, BLOCK_M, BLOCK_N, THREADS,
            Kernel::SHARED_BYTES};
}

template <class T>
Config config_for(int N) {
    if (N <= 8) return config<T, 128, 8>();
    if (N <= 16) return config<T, 128, 16>();
    if (N <= 32) return config<T, 128, 32>();
    if (N <= 64) return config<T, 128, 64>();
    return config<T, 128, 128>();
}

}  // namespace

Config tiled_csl_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config_for<__half>(p.N) : config_for<__nv_bfloat16>(p.N);
}

}  // namespace lscd
