// The kernels of hopper_tiles.cuh:
//
//   hopper_tiles   the product: eight warps multiply, four or two sets of four decode (FORMAT::Decoder)
//   add_parts      row blocks that several pairs have parts of (hopper_tiles_sums.cuh, backends/
//                  tile_shares.py)
#pragma once
#include "../common/grid.cuh"
#include "../common/stages.cuh"
#include "hopper_tiles_sums.cuh"

namespace lscd {
namespace {

// A warp that multiplies: a strip of 16 rows, by all columns of its thread block.
template <class T, class Has, int STEPS_OF_ROUND>
struct TilesKernel {
    using OfA = Place<Has::A_PLACES>;
    using OfB = Place<Has::B_PLACES>;
    static constexpr uint32_t LAST = MULTIPLYING_WARPS - 1;
    static constexpr int ROWS_OF_GROUP = PAIR_ROWS / 2;

    const TilesProblem& p;
    Address memory;
    int strip = threadIdx.x / 32, lane = threadIdx.x % 32;
    int rank = rank_in_cluster();  // which half of a pass's columns
    uint32_t step = 0, next_step = 0;  // to be multiplied; to be fetched, of B
    Rounds next{p};
    int next_of_round = 0;
    float sum[Has::PRODUCTS][Has::COLUMNS / 8][4];

    __device__ TilesKernel(const TilesProblem& p, Address memory) : p(p), memory(memory) {}

    // Of tiles, by one thread; decoding warps make those of their chunks.
    __device__ static void make_barriers(Address memory) {
        if (threadIdx.x) return;
        for (int i = 0; i < Has::A_PLACES; i++) {
            mbarrier_init(memory + A_IS_THERE + 8 * i, OWN_STRIPS);
            mbarrier_init(memory + A_IS_FREE + 8 * i, PAIR * MULTIPLYING_WARPS);
        }
        for (int i = 0; i < Has::B_PLACES; i++) {
            mbarrier_init(memory + B_IS_THERE + 8 * i, 1);
            st_shared(memory + HAVE_LEFT_B + 4 * i, 0);
        }
    }

    // The columns of a tile that nobody brings are multiplied with the others, and never stored: no product
    // reads what nobody wrote.
    __device__ static void clear_tiles(const TilesProblem& p, Address memory) {
        int first = p.product_columns * STEP_COLS * 2 / 16, sixteens = Has::PRODUCT_BYTES / 16 - first;
        for (int i = threadIdx.x; i < Has::B_PLACES * Has::PRODUCTS * sixteens; i += Has::THREADS) {
            Address tile = memory + Has::B_TILES + i / sixteens * Has::PRODUCT_BYTES;
            Address to = tile + (first + i % sixteens) * 16;
            st_shared_v2(to, {0, 0}), st_shared_v2(to + 8, {0, 0});
        }
        async_proxy_fence();
    }

    // --- tiles of B ---

    __device__ Address b_is_there(OfB at) const { return memory + B_IS_THERE + 8 * at.number; }
    __device__ Address b_tile(OfB at, int product) const {
        return memory + Has::B_TILES + at.number * Has::B_TILE_BYTES + product * Has::PRODUCT_BYTES;
    }

    // ld_dense: the next one, for which `fetches` says whether this lane asks.
    __device__ void fetch(bool fetches) {
        if (!next.more()) return;
        int k = (next.round * STEPS_OF_ROUND + next_of_round) * STEP_COLS;
        if (fetches) {
            OfB at(next_step);
            mbarrier_arrive_expect(b_is_there(at), Has::PRODUCTS * p.product_columns * STEP_COLS * 2);
#pragma unroll
            for (int i = 0; i < Has::PRODUCTS; i++)
                tensor_copy(b_tile(at, i), &p.columns, first_column<Has>(p, next.pass, rank, i), k,
                            b_is_there(at), evict_last());
        }
        next_step++;
        if (++next_of_round == STEPS_OF_ROUND) next_of_round = 0, next.next();
    }

    // --- a step ---

    // The warp's products of a step have ended: both blocks' decoders may know, and the last of the block's
    // warps fetches another tile of B.
    __device__ void leave(uint32_t step) {
        if (lane < PAIR) mbarrier_arrive_at(at_rank(memory + A_IS_FREE + 8 * OfA(step).number, lane));
        uint32_t before = count_shared(lane == 0, memory + HAVE_LEFT_B + 4 * OfB(step).number, LAST);
        fetch(before == LAST);
    }
    __device__ void multiply(bool adds) {
        OfA place(step);
        OfB columns(step);
        mbarrier_wait(b_is_there(columns), columns.parity);
        mbarrier_wait(memory + A_IS_THERE + 8 * place.number, place.parity);
        int group = __shfl_sync(~0u, strip / 4, 0);  // uniform: descriptors cost no vector registers
        uint64_t a = k_major(memory + A_TILES + place.number * A_TILE_BYTES + group * ROWS_OF_GROUP * 128);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < Has::PRODUCTS; i++) {
            uint64_t b = k_major(b_tile(columns, i));
#pragma unroll
            for (int k = 0; k < STEP_COLS / 16; k++)  // 32 bytes further on in each row
                if (!left_out(Stage::smem2tc))
                    wgmma_m64k16<T, Has::COLUMNS>(sum[i], a + 2 * k, b + 2 * k, adds || k);
        }
        wgmma_commit();
    }
    __device__ void multiply_segment(int rounds) {
        uint32_t before = step;
#pragma unroll 1
        for (int left = rounds * STEPS_OF_ROUND; left; left--) {
            bool first = left == rounds * STEPS_OF_ROUND;
            multiply(!first);
            wgmma_wait<1>();
            if (!first) leave(before);
            before = step++;
        }
        wgmma_wait<0>();
        leave(before);
    }

    __device__ void run() {
        Rounds now = next;
        wait_for_previous_grid();  // decoders read weights alone; B and C are others' until now
        for (int i = 0; i < Has::B_PLACES; i++) fetch(strip == 0 && lane == 0);
#pragma unroll 1
        while (now.more()) {
            multiply_segment(now.last - now.round);
            if (now.segment + 1 == now.end) let_next_grid_begin();
#pragma unroll
            for (int i = 0; i < Has::PRODUCTS; i++) TileSums<T, Has>{p}.store(sum[i], i, now);
            now.segment++, now.open();
        }
    }
};

template <class FORMAT, class T, int BLOCK_N>
__global__ void __launch_bounds__(TilesOf<FORMAT, BLOCK_N>::THREADS, 1)
    hopper_tiles(const __grid_constant__ TilesProblem p) {
#if LSCD_SM90
    using Has = TilesOf<FORMAT, BLOCK_N>;
    using Decoder = typename FORMAT::template Decoder<Has>;
    using Multiplier = TilesKernel<T, Has, FORMAT::STEPS_OF_ROUND>;
    extern __shared__ __align__(1024) unsigned char memory[];
    Address at = shared_address(memory);
    Multiplier::make_barriers(at);
    Multiplier::clear_tiles(p, at);
    bool decodes = threadIdx.x >= 32 * MULTIPLYING_WARPS;
    if (decodes) Decoder(p, at).prepare();
    mbarrier_init_fence();
    cluster_barrier();
    if (decodes) {
        keep_registers<Has::DECODING>();
        Decoder(p, at).run();
    } else {
        take_registers<Has::MULTIPLYING>();
        Multiplier(p, at).run();
    }
    cluster_barrier();  // the other block still arrives here, and copies
#else
    __trap();
#endif
}

// --- launching ---

template <class FORMAT, class T, int BLOCK_N>
cudaError_t launch(const WgmmaProblem& p, cudaStream_t stream) {
    using Has = TilesOf<FORMAT, BLOCK_N>;
    auto kernel = hopper_tiles<FORMAT, T, BLOCK_N>;
    auto add = add_parts<FORMAT, T, BLOCK_N>;
    int bytes = Has::CHUNKS + FORMAT::RINGS * p.stages * p.stage_bytes;
    bool fits = FORMAT::fits(p) && p.tile_slots == Has::A_PLACES && p.stage_bytes >= 1;
    if (!fits || bytes > MOST_SHARED_BYTES) return cudaErrorInvalidValue;
    auto limit = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (auto error = cudaFuncSetAttribute((const void*)kernel, limit, MOST_SHARED_BYTES)) return error;
    if (auto error = divide_as_product(add)) return error;
    int halves = PAIR * ceil_div(p.N, PAIR * BLOCK_N);
    int columns = round_up(ceil_div(p.N, halves * Has::PRODUCTS), 8);
    TilesProblem whole{{p, {}}, columns};
    if (auto error = make_tensor_map(&whole.columns, p.dtype, p.B, p.N, p.K, p.ldb, columns)) return error;
    dim3 rows(p.added_rows * (BLOCK_N / 8), PAIR);
    auto error = launch_grid(kernel, whole, dim3(PAIR * p.blocks), Has::THREADS, bytes, stream, {true, PAIR});
    if (error || !p.adds_slots()) return error;
    return launch_grid(add, whole, rows, PairSums<BLOCK_N>::THREADS, 0, stream);
}

template <class FORMAT, class T>
cudaError_t launch_width(const WgmmaProblem& p, cudaStream_t stream) {
    switch (p.block_n) {
        case 160: return launch<FORMAT, T, 160>(p, stream);
        case 192: return launch<FORMAT, T, 192>(p, stream);
        case 224: return launch<FORMAT, T, 224>(p, stream);
        case 256: return launch<FORMAT, T, 256>(p, stream);
        case 288: return launch<FORMAT, T, 288>(p, stream);
        case 320: return launch<FORMAT, T, 320>(p, stream);
        case 352: return launch<FORMAT, T, 352>(p, stream);
        case 384:
            if constexpr (FORMAT::SETS == 1) return launch<FORMAT, T, 384>(p, stream);
            [[fallthrough]];
        default: return cudaErrorInvalidValue;
    }
}

template <class FORMAT>
cudaError_t launch_by_tiles(const WgmmaProblem& p, cudaStream_t stream) {
    return p.dtype == Dtype::fp16 ? launch_width<FORMAT, __half>(p, stream)
                                  : launch_width<FORMAT, __nv_bfloat16>(p, stream);
}

}  // namespace
}  // namespace lscd
