// What a thread block of the Hopper kernel does: its slice of B comes, its warps multiply their shares, and what
// they have of 64 rows goes to memory.
#pragma once
#include "hopper_product.cuh"
#include "hopper_ring.cuh"
#include "hopper_segments.cuh"

namespace lscd {
namespace {

template <class T, int BLOCK_N, Kind KIND, int COPY, bool DOCUMENTED = false>
struct HopperKernel : HopperProduct<T, BLOCK_N, KIND, DOCUMENTED> {
    using Product = HopperProduct<T, BLOCK_N, KIND, DOCUMENTED>;
    using typename Product::Dense, typename Product::Part;
    using Product::Product;
    using Product::p, Product::memory, Product::warp, Product::lane, Product::slice, Product::WARPS;
    using Product::CLEARS_BEHIND;
    using Product::cols_of_slice, Product::for_quads, Product::multiply_chunk;
    static constexpr bool OVERLAPS = waiting(BLOCK_N, KIND) && !DOCUMENTED;
    // Whether the loop over chunks has no register for WarpShare::merge, which waits in shared memory then.
    static constexpr bool MERGE_WAITS = BLOCK_N == 8 && KIND == PACKED;

    LaneNumbers<WarpShare> share{p.shares + blockIdx.x * WARPS + warp, lane};
    int last = share[WarpShare::LAST];
    WarpRing<COPY> ring{p, memory + BARRIERS + warp * p.stages * 8, lane, last};

    // Of the warp's ring; anew, since B needs the registers until it is there.
    __device__ Address stages() const {
        return memory + DENSE + dense_bytes(p, BLOCK_N) + anew(warp) * p.stages * p.stage_bytes;
    }
    // The first chunk of a block, or behind the last one the end.
    __device__ int first_of(int block) const {
        return __ldg(p.first_chunk() + min(block, p.slices * p.row_blocks));
    }

    __device__ Address merges_at() const { return memory + MERGES_OF_WARPS + anew(warp) * 4; }
    // Pairs of columns that C has in this pass, or more.
    __device__ int pairs_of_pass() const { return ceil_div(p.N - int(blockIdx.y) * BLOCK_N, 2); }
    __device__ float4* sums_of(int segment) const {
        return quads_of<BLOCK_N>(p, blockIdx.y, segment);
    }

    // The sums of a segment.
    __device__ void store(int segment) {
        int lane = threadIdx.x % 32;  // anew: the loop over chunks has no register for what follows from it
        float4* to = sums_of(segment) + lane % 4 * PAIR_QUADS + lane / 4;
        bool needed = BLOCK_N > 8 || lane % 4 < pairs_of_pass();  // to ask more often takes registers
        for_quads([&](int pair, int i, float (&sum)[4]) {
            if (needed) st_global(to + pair * PAIR_QUADS + i, quad(sum), evict_last());
            if constexpr (CLEARS_BEHIND)
                for (float& each : sum) each = 0;
        });
    }

    // Weights can be read before the grid before has ended; B and the sums are others' until then. B
    // does not wait for a whole ring of weights.
    __device__ void run() {
        constexpr int early = 1;
        if (OVERLAPS) let_next_grid_begin();
        if (threadIdx.x == 0) mbarrier_init(memory + DENSE_READY, WARPS);
        Dense dense = this->dense();
        dense.clear_zeros();
        if constexpr (MERGE_WAITS) {
            int merges = share[WarpShare::MERGE];
            if (lane == 0) st_shared(merges_at(), merges);
        }
        ring.begin();
        __syncthreads();
        ring.fill(share, stages(), 0, early);
        int k0 = slice * p.slice_cols, end = k0 + cols_of_slice();
        Decoder<KIND> decoder(lane);
        int n0 = blockIdx.y * BLOCK_N;
        auto first = dense.eights(k0, end, n0);
        wait_for_previous_grid();
        dense.ld_dense(first, [&] { ring.fill(share, stages(), early, p.stages), ring.filled(share); });
        __syncwarp();
        if (lane == 0) mbarrier_arrive(memory + DENSE_READY);
        multiply_share(decoder);
    }

    // Where a chunk begins, in a register that its loads can be counted from.
    __device__ static Address of_chunk(Address at) {
        if constexpr (counts_from_chunk(KIND)) return uniform_address(at);
        else return at;
    }

    // All chunks of the warp.
    __device__ void multiply_share(const Decoder<KIND>& decoder) {
        int block = share[WarpShare::BLOCK], segment = share[WarpShare::SEGMENT];
        Merged known(share[WarpShare::MERGE]);
        auto merged = [&] { return MERGE_WAITS ? Merged(ld_shared(merges_at())) : known; };
        int chunk = share[WarpShare::FIRST], end_of_next = share[WarpShare::ENDS + 1];
        int end = min(share[WarpShare::ENDS], last);  // of the segment
        Part part{share[WarpShare::BEGIN]};
        const Address ring_begin = stages();
        Address at = WarpRing<COPY>::in_line(share[WarpShare::STARTS]);
        uint32_t parity = 0;
        int nth = 0;  // stage
        while (chunk < last) {
            Address stage = ring_begin + nth * p.stage_bytes, barrier = ring.barriers + 8 * nth;
            mbarrier_wait(barrier, parity);
            at = of_chunk(stage + at % LINE);
            int behind = min(chunk + COPY, last);
#pragma unroll 1
            do {
                at = of_chunk(at + (left_out(Stage::decode)
                                        ? ld_shared(at) & 0
                                        : multiply_chunk(at, decoder, part, chunk)));
                if (++chunk < end) continue;
                bool done = chunk == last;
                if (!OVERLAPS && done) let_next_grid_begin();
                if (!done || !merged().several()) store(segment);
                if (done) break;
                segment++, block++, part = {chunk}, end = min(end_of_next, last);
                end_of_next = first_of(block + 2);
            } while (chunk < behind);
            ring.refill(stage, barrier);
            if (++nth == p.stages) nth = 0, parity ^= 1;
        }
        if constexpr (MERGES<BLOCK_N>) merge(merged(), segment, ring_begin);
    }

    // Warps that end with the same block add their sums up where their rings were: one segment then.
    __device__ void merge(Merged merged, int segment, Address mine) {
        int ring_bytes = p.stages * p.stage_bytes;
        Address to = merged_at(mine, lane % 4, lane / 4);
        if (merged.several())
            for_quads([&](int pair, int i, const float (&sum)[4]) {
                st_shared_v4(merged_at(to, pair, i), bits(quad(sum)));
            });
        __syncthreads();
        Address others = mine + (merged.first - warp) * ring_bytes;
        float4* sums = sums_of(segment);
        for (int i = merged.rank * 32 + lane; i < merged.quads(BLOCK_N); i += merged.members * 32) {
            Address at = merged_at(others, i / PAIR_QUADS, i % PAIR_QUADS);
            float4 sum = {};
#pragma unroll 2  // further, it takes longer: instructions that run once must come first
            for (int w = 0; w < merged.span; w++) add_quad(sum, floats(ld_shared_v4(at + w * ring_bytes)));
            st_global(sums + i, sum, evict_last());
        }
    }
};

}  // namespace
}  // namespace lscd
