// SpMM on Tiled-CSL: Flash-LLM's kernel (section 4.2, Algorithms 1 and 2).
//
//   a block works on 128 x BLOCK_N of C at a time, over its share of A's tiles; its 4 warps own 32
//   rows each, of the tile that they clear and multiply
//
//   global      words of tile t+1+DEPTH .....  B of tile t+1
//                 | gmem2reg                     | ld_dense (cp.async)
//   registers   words of DEPTH tiles             |
//                 | extract                      |
//   shared      A dense, two buffers           B, two buffers
//                 | smem2tc (ldmatrix), then rst_smem by the warp that read
//   tensor core  mma.m16n8k16 <------------------+
//
// With 64 columns on sm_90, but for the densest matrices, the tensor core reads shared memory itself
// (wgmma: the tiles' swizzle is its own) while the next tile is extracted into the second of three
// buffers. The third, which it read before, is cleared meanwhile.
//
// Words beyond what the registers hold are scattered straight from global memory: no cap on nnz.
#include "../common/dense.cuh"
#include "../common/stages.cuh"
#include "../common/store.cuh"
#include "../common/wgmma.cuh"
#include "kernels.cuh"

namespace lscd {
namespace {

constexpr int THREADS = 128, BLOCK_M = 128, WARP_M = 32;

// A: words, tile_offsets. VECTORS of 4 words per thread are the registers of a tile, as many as a
// tile of the matrix's mean density needs; then the sparser the tiles, the more of them are in flight.
template <class T, int BLOCK_N, int VECTORS, bool WGMMA>
struct TiledCslKernel {
    static constexpr int DEPTH = VECTORS <= 4 && BLOCK_N <= 32 ? 2 : 1;
    static constexpr int A_BUFFERS = WGMMA ? 3 : 2;
    static constexpr int M_FRAGS = WARP_M / 16, N_FRAGS = BLOCK_N / 8;
    static constexpr int A_ELEMENTS = BLOCK_M * TILE_K, B_ELEMENTS = BLOCK_N * TILE_K;
    static constexpr int SHARED_BYTES = (A_BUFFERS * A_ELEMENTS + 2 * B_ELEMENTS) * 2;

    struct Tile {
        int count;  // of its vectors, all in all
        uint4 words[VECTORS];
    };

    const Problem& p;
    Share share;
    Tile tiles[DEPTH];  // tile t in tiles[(t - share.first) % DEPTH]
    int start, end;     // vectors of the tile to load next: known before it is asked for
    float sum[M_FRAGS][N_FRAGS][4] = {};
    uint32_t adds = 0;  // whether wgmma adds to the sums, or begins new ones

    __device__ TiledCslKernel(const Problem& p, const Shares& shares)
        : p(p), share(shares, blockIdx.x),
          start(offset(share.first)),
          end(offset(share.first + 1)) {}

    __device__ static int warp() { return threadIdx.x / 32; }
    __device__ static int warp_row() { return warp() * WARP_M; }
    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ int row_tiles() const { return ceil_div(p.K, TILE_K); }
    __device__ int offset(int tile) const {
        return __ldg(static_cast<const int*>(p.A[1]) + min(tile, share.last));
    }

    // The rows that this warp owns. Plain stores: on an H200 they are faster than the paper's
    // zero-sized cp.async.
    __device__ void rst_smem(Shared<T> a) const {
        Shared<uint4> chunks = (a + warp_row() * TILE_K).template as<uint4>();
#pragma unroll
        for (int i = 0; i < WARP_M * TILE_K / 8; i += 32) chunks.store(i + lane(), uint4{0, 0, 0, 0});
    }

    // Tiles are loaded in their order; those from share.last on are empty. EARLY: by loads that ptxas
    // does not move to behind the wait for the grid before, as it does __ldg.
    template <bool EARLY = false>
    __device__ void gmem2reg(Tile& tile, int t) {
        const uint4* from = static_cast<const uint4*>(p.A[0]) + start;
        tile.count = end - start;
        start = end, end = offset(t + 2);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            int i = v * THREADS + threadIdx.x;
            if (i < tile.count) tile.words[v] = EARLY ? ld_global(from + i) : __ldg(from + i);
        }
    }

    __device__ static void scatter(Shared<uint16_t> a, uint32_t word) {
        a.store(word >> 16, uint16_t(word));
    }
    __device__ static void scatter(Shared<uint16_t> a, uint4 four) {
        scatter(a, four.x), scatter(a, four.y), scatter(a, four.z), scatter(a, four.w);
    }

    __device__ void extract(const Tile& tile, int t, Shared<T> to) const {
        Shared<uint16_t> a = to.template as<uint16_t>();
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            if (v * THREADS + threadIdx.x < tile.count) scatter(a, tile.words[v]);
        if (tile.count <= VECTORS * THREADS) return;
        const uint4* vectors = static_cast<const uint4*>(p.A[0]) + offset(t);
        for (int i = VECTORS * THREADS + threadIdx.x; i < tile.count; i += THREADS)
            scatter(a, __ldg(vectors + i));
    }

    __device__ void load_a(uint32_t (&r)[4], Shared<T> a, int i, int k16) const {
        ldmatrix_x4(r, a, swizzled(warp_row() + i * 16 + lane() % 16, k16 * 16 + lane() / 16 * 8));
    }

    // All of A's fragments first, since their loads are what the tensor core waits for; at 64 columns
    // one at a time, since registers decide how many blocks fit. 64 columns of B at a time.
    __device__ void smem2tc(Shared<T> a, Shared<T> b) {
        constexpr int A_AT_ONCE = N_FRAGS == 8 ? 1 : M_FRAGS, B_AT_ONCE = N_FRAGS < 8 ? N_FRAGS : 8;
#pragma unroll
        for (int k16 = 0; k16 < TILE_K / 16; k16++) {
            uint32_t a_frag[A_AT_ONCE][4], b_frag[B_AT_ONCE][2];
            if constexpr (A_AT_ONCE == 1) load_b(b_frag, b, k16);
#pragma unroll
            for (int i0 = 0; i0 < M_FRAGS; i0 += A_AT_ONCE) {
#pragma unroll
                for (int i = 0; i < A_AT_ONCE; i++) load_a(a_frag[i], a, i0 + i, k16);
#pragma unroll
                for (int j0 = 0; j0 < N_FRAGS; j0 += B_AT_ONCE) {
                    if constexpr (A_AT_ONCE > 1) load_b(b_frag, b + j0 * 8 * TILE_K, k16);
#pragma unroll
                    for (int j = 0; j < B_AT_ONCE; j++)
#pragma unroll
                        for (int i = 0; i < A_AT_ONCE; i++)
                            mma_m16n8k16<T>(sum[i0 + i][j0 + j], a_frag[i], b_frag[j]);
                }
            }
        }
    }

    // Starts; whoever waits for wgmma ends it.
    __device__ void smem2tc_wgmma(Shared<T> a, Shared<T> b) {
        constexpr int UNIT = 16, FRAG = 64 * TILE_K * 2 / UNIT, K16 = 16 * 2 / UNIT;
        uint64_t a_rows = k_major(a.address(0)), b_columns = k_major(b.address(0));
        wgmma_fence();
#pragma unroll
        for (int k16 = 0; k16 < TILE_K / 16; k16++)
#pragma unroll
            for (int i = 0; i < M_FRAGS; i++)
                wgmma_m64k16<T, BLOCK_N>(sum[i], a_rows + i * FRAG + k16 * K16,
                                         b_columns + k16 * K16, k16 ? 1 : adds);
        wgmma_commit();
        adds = 1;
    }

    // The sums of the row that tile t is in; new ones begin: not by zeros, where ptxas would make wgmma
    // wait for them.
    __device__ void store(int t, int n0) {
        if (t + 1 == share.last) let_next_grid_begin();
        RowOfSums<BLOCK_M>(p, share, t / row_tiles(), row_tiles())
            .template store<T, WGMMA ? 64 : 16>(p, sum, WGMMA ? warp() * 16 : warp_row(), n0);
        if constexpr (WGMMA) adds = 0;
        else clear(sum);
    }

    // One barrier a tile: before it, tile t was multiplied, and cleared by the warps that own its rows
    // (by wgmma: the tile before it was), while tile t+1 was written to another buffer.
    __device__ void run(Shared<T> shared, int n0) {
        Stages stages{p, share};
        int k = share.first % row_tiles();
        auto a = [&](int t) { return shared + t % A_BUFFERS * A_ELEMENTS; };
        auto b = [&](int t) { return shared + A_BUFFERS * A_ELEMENTS + t % 2 * B_ELEMENTS; };
        auto load_b_tile = [&](int t, int k) {
            if (t < share.last && stages.run(Stage::ld_dense, t))
                ld_dense<BLOCK_N, THREADS>(p, k, n0, b(t));
            cp_async_commit();
        };
        auto expand = [&](Tile& tile, int t) {  // and load the tile that takes its registers
            if (stages.run(Stage::extract, t)) extract(tile, t, a(t));
            if (stages.run(Stage::gmem2reg, t)) gmem2reg(tile, t + DEPTH);
        };
        auto multiply = [&](int t) {
            if constexpr (WGMMA) {
                if (stages.run(Stage::smem2tc, t)) smem2tc_wgmma(a(t), b(t));
                if (stages.run(Stage::rst_smem, t)) rst_smem(a(t + 2));  // of tile t-1
            } else {
                if (stages.run(Stage::smem2tc, t)) smem2tc(a(t), b(t));
                __syncwarp();
                if (stages.run(Stage::rst_smem, t)) rst_smem(a(t));
            }
        };
        auto settle = [&] {
            cp_async_wait<0>();
            if constexpr (WGMMA) async_proxy_fence(), wgmma_wait<0>();
            __syncthreads();
        };
#pragma unroll
        for (int d = 0; d < DEPTH; d++) gmem2reg<true>(tiles[d], share.first + d);
#pragma unroll
        for (int i = 0; i < A_BUFFERS; i++) rst_smem(a(i));
        wait_for_previous_grid();
        load_b_tile(share.first, k);
        __syncthreads();
        expand(tiles[0], share.first);
        settle();
        for (int t0 = share.first; t0 < share.last; t0 += DEPTH) {
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                int t = t0 + d;
                if (t >= share.last) break;
                k = k + 1 < row_tiles() ? k + 1 : 0;  // of tile t+1
                load_b_tile(t + 1, k);
                if (BLOCK_N <= 32) expand(tiles[(d + 1) % DEPTH], t + 1), multiply(t);
                else multiply(t), expand(tiles[(d + 1) % DEPTH], t + 1);
                settle();
                if (k == 0 || t + 1 == share.last) store(t, n0);
            }
        }
    }
};

// Blocks that must fit on an SM, as measured best on an H200: as many as leave the registers that the
// sums and the tiles in flight take. No more than fit into the shared memory.
constexpr int min_blocks(int block_n, int vectors, int shared_bytes) {
    int wanted = block_n <= 16 ? (vectors < 8 ? 5 : 4) : block_n <= 32 ? 4 : block_n <= 64 ? 3 : 2;
    int fitting = SHARED_BYTES_PER_SM / (shared_bytes + RESERVED_SHARED_BYTES);
    return wanted < fitting ? wanted : fitting;
}

template <class T, int BLOCK_N, int VECTORS, bool WGMMA>
__global__ void __launch_bounds__(
    THREADS, min_blocks(BLOCK_N, VECTORS, TiledCslKernel<T, BLOCK_N, VECTORS, WGMMA>::SHARED_BYTES))
    tiled_csl(const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (WGMMA) __trap();
    else
#endif
        TiledCslKernel<T, BLOCK_N, VECTORS, WGMMA>(p, Shares(p))
            .run(Shared<T>(memory), blockIdx.y * BLOCK_N);
}

template <class T, int BLOCK_N, int VECTORS, bool WGMMA = false>
Config config() {
    using Kernel = TiledCslKernel<T, BLOCK_N, VECTORS, WGMMA>;
    return {(const void*)tiled_csl<T, BLOCK_N, VECTORS, WGMMA>, BLOCK_M, BLOCK_N, THREADS,
            Kernel::SHARED_BYTES};
}

// The registers that hold a tile of p.tile_values words, and a tenth more.
template <class T, int BLOCK_N, bool WGMMA = false>
Config config_for(const Problem& p) {
    int vectors = ceil_div(p.tile_values + p.tile_values / 10, 4 * THREADS);
    if constexpr (BLOCK_N <= 32 || WGMMA) {
        if (vectors <= 2) return config<T, BLOCK_N, 2, WGMMA>();
    }
    if (vectors <= 4) return config<T, BLOCK_N, 4, WGMMA>();
    if constexpr (BLOCK_N == 64) {
        if (vectors <= 6) return config<T, BLOCK_N, 6, WGMMA>();
    }
    return config<T, BLOCK_N, 8>();  // with wgmma, ptxas would spill
}

template <class T>
Config config_for(const Problem& p) {
    if (p.N <= 8) return config_for<T, 8>(p);
    if (p.N <= 16) return config_for<T, 16>(p);
    if (p.N <= 32) return config_for<T, 32>(p);
    if (p.N <= 64) return p.sm90 ? config_for<T, 64, true>(p) : config_for<T, 64>(p);
    return config<T, 128, 5>();
}

}  // namespace

Config tiled_csl_config(const Problem& p) {
    return p.dtype == Dtype::fp16 ? config_for<__half>(p) : config_for<__nv_bfloat16>(p);
}

}  // namespace lscd
