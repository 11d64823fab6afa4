// A chunk's product, for the Hopper kernel: which rows of B its values meet, and the sums.
#pragma once
#include "hopper_chunk.cuh"
#include "hopper_dense.cuh"

namespace lscd {
namespace {

template <class T, int BLOCK_N, Kind KIND, bool DOCUMENTED>
struct HopperProduct {
    static constexpr int WARPS = warps_of(BLOCK_N, KIND), N_FRAGS = BLOCK_N / 8, PIECES = pieces_of(KIND);
    // Parts of a chunk that have a header of their own, two steps each: pieces, or halves of a nested one.
    static constexpr int HEADERS = KIND == NESTED ? 2 : PIECES;
    using Dense = HopperDense<BLOCK_N, WARPS, KIND == NESTED>;
    // Sums become zeros where a block begins. Behind their store the compiler would make other registers zeros,
    // and move sums from one to the other in every chunk, but for this kernel, which is slower the other way.
    static constexpr bool CLEARS_BEHIND = BLOCK_N == 16 && KIND == PACKED;

    const HopperProblem& p;
    Address memory;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, slice = blockIdx.x / p.blocks_per_slice;
    __device__ Dense dense() const { return {p, memory}; }  // no member: its parts would be kept
    float sum[TILES][N_FRAGS][4] = {};

    __device__ HopperProduct(const HopperProblem& p, Address memory) : p(p), memory(memory) {}

    __device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                             uint32_t metadata, int step) {
        if (step == 0) mma_sp_m16n8k32<T, 0>(d, a, b, metadata);
        else mma_sp_m16n8k32<T, 1>(d, a, b, metadata);
    }

    // smem2tc: all tiles meet the same rows of B.
    __device__ void smem2tc(const uint32_t (&a)[TILES][4], const Header& h, int step, Address rows) {
        if (left_out(Stage::smem2tc)) return use(a);
#pragma unroll
        for (int frag = 0; frag < N_FRAGS; frag++) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, dense().eight(rows, frag));
            multiply_tiles(frag, a, b, h, step);
        }
    }
    __device__ void multiply_tiles(int frag, const uint32_t (&a)[TILES][4], const uint32_t (&b)[4],
                                   const Header& h, int step) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            multiply(sum[tile][frag], a[tile], b, h.metadata[tile], step);
    }

    // The same for an extra chunk: each tile has a list of its rows, for each step of its parts.
    __device__ void smem2tc_listed(const uint32_t (&a)[TILES][4], const Header& h, int nth, int step, Address at) {
        if (left_out(Stage::smem2tc)) return use(a);
        Address origin = keep(memory);  // else computed anew for each list
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            Address list = at + header_bytes(KIND) + (tile * LISTED_STEPS + 2 * nth + step) * 64;
            Address rows = origin + Dense::listed(ld_shared_s16(list + lane * 2));
#pragma unroll
            for (int frag = 0; frag < N_FRAGS; frag++) {
                uint32_t b[4];
                ldmatrix_x4_trans(b, dense().eight(rows, frag));
                multiply(sum[tile][frag], a[tile], b, h.metadata[tile], step);
            }
        }
    }

    // Uses what was extracted, in a build without smem2tc.
    __device__ void use(const uint32_t (&a)[TILES][4]) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            sum[tile][0][0] += float((a[tile][0] ^ a[tile][1] ^ a[tile][2] ^ a[tile][3]) & 1);
    }

    // Chunks of a block, which begins with chunk `begin`, up to `end`: those that have all their pieces and whose rows
    // of B follow each other, regular ones or those of level 1. Others are parts of their own. end = 0: none has begun.
    struct Part {
        int begin, end = 0;
        typename Dense::Rows rows = {};
    };

    // One chunk; returns its bytes. Where `part` has ended another one begins, the first of them when B is
    // there.
    __device__ uint32_t multiply_chunk(Address at, const Decoder<KIND>& decoder, Part& part, int chunk) {
        Header h = header<KIND>(at, decoder);
        if (uniform(chunk >= part.end)) multiply_first(at, h, decoder, part, chunk);
        else multiply_next(at, h, decoder, part);
        return h.bytes;
    }

    // What is no part's first chunk, nor one of its own: without a branch, so that rows of B come while values are
    // looked for, and products of a tile begin with its own.
    __device__ void multiply_next(Address at, Header& h, const Decoder<KIND>& decoder, Part& part) {
        multiply_header(h, decoder, part, 0);
        if constexpr (HEADERS > 1) {
            read_piece(h, at, decoder, 1);
            multiply_header(h, decoder, part, 1);
        }
    }
    // What the nth header of a chunk is of.
    __device__ void multiply_header(Header& h, const Decoder<KIND>& decoder, Part& part, int nth) {
        if constexpr (BY_STEPS) return multiply_by_steps(h, decoder, part, nth);
        uint32_t a[2][TILES][4];
        if constexpr (BLOCK_N > 16 || left_out(Stage::smem2tc)) {  // no registers for rows that come early
            extract_both(a, h, decoder, nth);
            smem2tc_both(a, h, part, nth);
        } else {
            uint32_t b[2][N_FRAGS][4];
            load_rows(b, part, nth);
            extract_both(a, h, decoder, nth);
            part.rows.advance(nth);
#pragma unroll
            for (int i = 0; i < 2 * N_FRAGS; i++)
                multiply_tiles(i % N_FRAGS, a[i / N_FRAGS], b[i / N_FRAGS][i % N_FRAGS], h, i / N_FRAGS);
        }
    }
    __device__ void load_rows(uint32_t (&b)[2][N_FRAGS][4], const Part& part, int nth) {
#pragma unroll
        for (int i = 0; i < 2 * N_FRAGS; i++)
            ldmatrix_x4_trans(b[i / N_FRAGS][i % N_FRAGS],
                              dense().eight(part.rows.of(nth, i / N_FRAGS), i % N_FRAGS));
    }

    // A part's first chunk, or one of its own: rows of B are known behind begin_part alone.
    __device__ void multiply_first(Address at, Header& h, const Decoder<KIND>& decoder, Part& part, int chunk) {
        uint32_t a[2][TILES][4];
        if constexpr (!BY_STEPS) extract_both(a, h, decoder, 0);
        wait_for_dense();
        if (begin_part(part, chunk)) return multiply_listed(a, at, h, decoder);
        if constexpr (BY_STEPS) multiply_by_steps(h, decoder, part, 0);
        else smem2tc_both(a, h, part, 0);
        if constexpr (HEADERS > 1) {
            if (PIECES > 1 && uniform(chunk >= part.end)) return;
            read_piece(h, at, decoder, 1);
            if constexpr (BY_STEPS) return multiply_by_steps(h, decoder, part, 1);
            extract_both(a, h, decoder, 1);
            smem2tc_both(a, h, part, 1);
        }
    }
    // B is there when the first part begins; to ask again costs others nothing.
    __device__ void wait_for_dense() { mbarrier_wait(memory + DENSE_READY, 0); }

    // Both steps are extracted before one is multiplied: what a warp waits for, bmma and then its values, it
    // waits for once. Sixes have the same values in both, of a piece.
    __device__ void extract_both(uint32_t (&a)[2][TILES][4], Header& h, const Decoder<KIND>& decoder, int nth) {
        extract<KIND>(a[0], h, decoder, KIND == SIXES ? nth : 0);
        if constexpr (KIND == SIXES) memcpy(a[1], a[0], sizeof a[1]);
        else extract_second(a[1], h, decoder, nth);
        if (DOCUMENTED) only_documented(a, h, lane);
    }
    // The second step of a header.
    __device__ static void extract_second(uint32_t (&a)[TILES][4], const Header& h, const Decoder<KIND>& decoder,
                                          int nth) {
        if (KIND == NESTED && nth) extract<KIND, true>(a, h, decoder, 1);
        else extract<KIND>(a, h, decoder, 1);
    }
    __device__ void smem2tc_both(const uint32_t (&a)[2][TILES][4], const Header& h, Part& part, int nth) {
#pragma unroll
        for (int step = 0; step < 2; step++) smem2tc(a[step], h, step, part.rows.of(nth, step));
        part.rows.advance(nth);
    }

    // An extra chunk, whose first steps have been extracted, unless they are one after the other. Of a nested one step 2
    // is left; level 1 has nothing.
    static constexpr int LISTED_STEPS = KIND == NESTED ? 3 : 2;
    __device__ void multiply_listed(uint32_t (&a)[2][TILES][4], Address at, Header& h, const Decoder<KIND>& decoder) {
#pragma unroll
        for (int step = 0; step < 2; step++) {
            if constexpr (BY_STEPS) extract<KIND>(a[step], h, decoder, step);
            smem2tc_listed(a[step], h, 0, step, at);
        }
        if constexpr (KIND == NESTED) {
            read_piece(h, at, decoder, 1);
            if constexpr (DOCUMENTED) extract_both(a, h, decoder, 1);
            else extract<KIND>(a[0], h, decoder, 0);
            smem2tc_listed(a[0], h, 1, 0, at);
        }
    }

    // One step after the other, where 12 warps have registers for the values of one alone.
    static constexpr bool BY_STEPS = BLOCK_N == 32 && KIND != SIXES;
    __device__ void multiply_by_steps(const Header& h, const Decoder<KIND>& decoder, Part& part, int nth) {
        static_assert(!DOCUMENTED);
        uint32_t a[TILES][4];
        extract<KIND>(a, h, decoder, 0);
        smem2tc(a, h, 0, part.rows.of(nth, 0));
        extract_second(a, h, decoder, nth);
        smem2tc(a, h, 1, part.rows.of(nth, 1));
        part.rows.advance(nth);
    }

    // Whether it is an extra chunk. Else `part` is the one that begins with it, or its rows are those of the one piece
    // that it has, since the slice ends.
    __device__ bool begin_part(Part& part, int chunk) {
        if (!CLEARS_BEHIND && uniform(chunk == part.begin)) clear(sum);
        int cols = anew(cols_of_slice()), nth = chunk - part.begin;
        if constexpr (KIND == NESTED) {
            int regular = ceil_div(cols, NESTED_COLS);
            if (uniform(nth >= regular)) return true;
            part.end = part.begin + regular, part.rows = dense().nested_rows(nth);
        } else {
            int pieces = ceil_div(cols, PIECE_COLS), whole = pieces / PIECES, regular = ceil_div(pieces, PIECES);
            int fixed = regular + (p.levels ? ceil_div(cols, LEVEL_COLS) : 0);
            if (uniform(nth >= fixed)) return true;
            part.end = part.begin + (nth < regular ? whole : fixed);
            part.rows = dense().rows(nth * PIECES, pieces);
        }
        return false;
    }
    __device__ int cols_of_slice() const { return min(p.K - slice * p.slice_cols, p.slice_cols); }

    // Calls use(pair, i, sums) for the lane's quads of a segment: the i-th one of a pair of columns, counted
    // from its first one, which is the (lane / 4)-th one of pair lane % 4.
    template <class Use>
    __device__ void for_quads(Use use) {
#pragma unroll
        for (int frag = 0; frag < N_FRAGS; frag++)
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) use(frag * 4, tile * 8, sum[tile][frag]);
    }
};

}  // namespace
}  // namespace lscd
