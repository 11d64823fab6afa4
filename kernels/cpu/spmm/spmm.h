// Load sparse, compute dense, on a CPU: the one loop that every format and instruction set shares.
//
//   all threads       pack B once: blocks of 64 rows x NB columns, in the multiplier's own layout
//   each thread       takes row blocks of C (16, 64 or 128 rows, as the format's decoder likes), so
//                     that no two write the same element and their number does not change a bit
//     each k block    64 columns of A: decode them into strips (L1), multiply those with the blocks
//                     of B that meet them (n blocks), add to fp32 sums
//     then            round the sums once, into C
//
// For bitmaps and few columns the middle step is fused: eight columns are multiplied as soon as
// they are decoded, while they are still in registers or nearly so.
#pragma once
#include "buffer.h"
#include "decode_chunks.h"
#include "decode_indexed.h"
#include "multiply.h"

namespace lscd {
namespace {

// Rounds the sums of a row block into C. acc is [n block][strip][NB][16 lanes].
template <Dtype D, i64 NB>
void store_rows(const Problem& p, i64 row0, i64 rows, const float* acc) {
    for (i64 r = 0; r < min(rows, p.M - row0); r++) {
        const float* lane = acc + r / STRIP_ROWS * NB * STRIP_ROWS + row_of_lane(r % STRIP_ROWS);
        u16* out = p.C + (row0 + r) * p.C_stride_m;
        for (i64 n = 0; n < p.N; n++)
            out[n * p.C_stride_n] =
                from_float<D>(lane[n / NB * NB * rows + n % NB * STRIP_ROWS]);
    }
}

// Calls run(decoder) with the decoder of the problem's format.
template <class Isa, class Run>
void with_decoder(const Problem& p, Run run) {
    using Step = typename Isa::DenseStep;
    auto call = [&](auto&& decoder) { run(decoder); };
    auto from_chunks = [&](UnpackRows& unpack) { call(ChunksDecoder<Step>(p, unpack)); };
    switch (p.format) {
        case Format::dense: return call(DenseDecoder<Step>((const u16*)p.A[0], p.M, p.K));
        case Format::csr: return call(CsrDecoder(p, 0));
        case Format::tiled_csl: return call(TiledCslDecoder(p));
        case Format::tca_bme: return call(TcaBmeDecoder<typename Isa::BitmapStep>(p));
        case Format::two_four: return call(TwoFourDecoder(p));
        case Format::sparta: return call(SpartaDecoder(p));
        case Format::zero_row_24: return from_chunks(unpack_zero_row_24);
        case Format::zero_row_24_strips: return from_chunks(unpack_zero_row_24_strips);
        case Format::lane_24_strips: return from_chunks(unpack_lane_24_strips);
        case Format::bitmap_strips: return from_chunks(unpack_bitmap_strips);
        case Format::coded_strips: return from_chunks(unpack_coded_strips);
    }
}

// One product with one dtype and multiplier; shared by all threads.
template <Dtype D, class Multiplier>
struct Product {
    using Element = typename Multiplier::Element;
    static constexpr i64 NB = Multiplier::NB;
    const Problem& p;
    const i64 k_blocks = ceil_div(p.K, BLOCK_K), n_blocks = ceil_div(p.N, NB);
    Buffer<Element> packed{n_blocks * k_blocks * Multiplier::PACKED};  // [n block][k block]

    Element* activations(i64 j, i64 k_block) {
        return packed.data + (j * k_blocks + k_block) * Multiplier::PACKED;
    }

    void pack() {
#pragma omp for collapse(2) schedule(static)
        for (i64 j = 0; j < n_blocks; j++)
            for (i64 k_block = 0; k_block < k_blocks; k_block++)
                Multiplier::pack(p, k_block * BLOCK_K, j * NB, activations(j, k_block));
    }

    // Sums of a row block.
    i64 sums(i64 rows) const { return n_blocks * rows * NB; }

    // In each thread; one_block(multiplier, row block, k block) adds 64 columns of A times B to acc.
    template <class OneBlock>
    void run(i64 rows, float* acc, OneBlock one_block) {
        Multiplier multiplier(rows / STRIP_ROWS, n_blocks);
#pragma omp for schedule(dynamic)
        for (i64 block = 0; block < ceil_div(p.M, rows); block++) {
            multiplier.begin(acc);
            for (i64 k_block = 0; k_block < k_blocks; k_block++)
                one_block(multiplier, block, k_block);
            multiplier.end(acc);
            store_rows<D, NB>(p, block * rows, rows, acc);
        }
    }

    // Every format can do this: a whole block into strips, then all columns of B.
    void through_strips(Decoder& decoder, float* acc) {
        alignas(64) u16 strips[MOST_ROWS * BLOCK_K];
        run(decoder.rows, acc, [&](Multiplier& multiplier, i64 block, i64 k_block) {
            decoder.block(block, k_block, strips);
            multiplier.prepare(strips);
            for (i64 j = 0; j < n_blocks; j++)
                multiplier.multiply(activations(j, k_block), acc + j * decoder.rows * NB);
        });
    }

    void start(Decoder& decoder, float* acc) { through_strips(decoder, acc); }

    // With one block of columns, decoded weights are used once: no need to keep them in strips.
    template <class Step>
    void start(TcaBmeDecoder<Step>& decoder, float* acc) {
        if (n_blocks > 1) return through_strips(decoder, acc);
        run(decoder.rows, acc, [&](Multiplier& multiplier, i64 block, i64 k_block) {
            decoder.open(block, k_block);
            multiplier.multiply_decoded(decoder, activations(0, k_block), acc);
        });
    }
};

// Throws std::bad_alloc where a thread lacks memory.
template <class Isa, Dtype D, class Multiplier>
void spmm(const Problem& p) {
    Product<D, Multiplier> product{p};
    bool lacking = !product.packed.data;
    if (lacking) throw std::bad_alloc();
#pragma omp parallel num_threads(p.threads)
    with_decoder<Isa>(p, [&](auto& decoder) {
        Buffer<float> acc(product.sums(decoder.rows));
        if (!acc.data || !decoder.ready()) {
#pragma omp atomic write
            lacking = true;
        }
        product.pack();  // at whose end all threads meet: now all know
        if (!lacking) product.start(decoder, acc.data);
    });
    if (lacking) throw std::bad_alloc();
}

// The narrowest block of columns that holds N, up to the widest with registers for its sums.
template <class Isa, Dtype D, i64 NB = 1>
void spmm_any_N(const Problem& p) {
    if constexpr (NB < Isa::MAX_NB)
        if (p.N > NB) return spmm_any_N<Isa, D, 2 * NB>(p);
    spmm<Isa, D, typename Isa::template Multiplier<NB, D>>(p);
}

template <class Isa>
void spmm_any_dtype(const Problem& p) {
    p.dtype == Dtype::fp16 ? spmm_any_N<Isa, Dtype::fp16>(p) : spmm_any_N<Isa, Dtype::bf16>(p);
}

}  // namespace
}  // namespace lscd
