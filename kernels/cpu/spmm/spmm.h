// Load sparse, compute dense, on a CPU: the one loop that every format and instruction set shares.
//
//   threads    take row blocks of C (64 or 128 rows), so no two write the same element and the
//              result does not depend on how many there are
//   for each   64 columns of A:  decode them into strips (L1), multiply each with all of B
#pragma once
#include <new>

#include "decode_indexed.h"
#include "multiply.h"

namespace lscd {
namespace {

// 64-byte aligned scratch, zeroed.
template <class T>
struct Buffer {
    T* data;
    explicit Buffer(i64 count) : data((T*)operator new(count * sizeof(T), std::align_val_t(64))) {
        memset((void*)data, 0, count * sizeof(T));
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() { operator delete(data, std::align_val_t(64)); }
};

// acc is [n block][strip][NB][16 lanes].
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
    auto call = [&](auto decoder) { run(decoder); };
    switch (p.format) {
        case Format::dense: return call(DenseDecoder<typename Isa::DenseStep>(p));
        case Format::csr: return call(CsrDecoder(p, 0));
        case Format::tiled_csl: return call(TiledCslDecoder(p));
        case Format::tca_bme: return call(TcaBmeDecoder<typename Isa::BitmapStep>(p));
        case Format::two_four: return call(TwoFourDecoder(p));
        case Format::sparta: return call(SpartaDecoder(p));
    }
}

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

    void run(Decoder& decoder) {  // in each thread
        const i64 rows = decoder.rows;
        Multiplier multiplier(rows / STRIP_ROWS, n_blocks);
        Buffer<u16> strips(rows * BLOCK_K);
        Buffer<float> acc(n_blocks * rows * NB);
#pragma omp for schedule(dynamic)
        for (i64 block = 0; block < ceil_div(p.M, rows); block++) {
            multiplier.begin(acc.data);
            for (i64 k_block = 0; k_block < k_blocks; k_block++) {
                decoder.block(block, k_block, strips.data);
                multiplier.prepare(strips.data);
                for (i64 j = 0; j < n_blocks; j++)
                    multiplier.multiply(activations(j, k_block), acc.data + j * rows * NB);
            }
            multiplier.end(acc.data);
            store_rows<D, NB>(p, block * rows, rows, acc.data);
        }
    }
};

template <class Isa, Dtype D, class Multiplier>
void spmm(const Problem& p) {
    Product<D, Multiplier> product{p};
#pragma omp parallel num_threads(p.threads)
    {
        product.pack();
        with_decoder<Isa>(p, [&](Decoder& decoder) { product.run(decoder); });
    }
}

// The narrowest block of columns that holds N, of those the instruction set has registers for.
template <class Isa, Dtype D>
void spmm_any_N(const Problem& p) {
    if (p.N == 1) return spmm<Isa, D, typename Isa::template Multiplier<1, D>>(p);
    if (p.N <= 4 || Isa::MAX_NB == 4) return spmm<Isa, D, typename Isa::template Multiplier<4, D>>(p);
    if (p.N <= 8) return spmm<Isa, D, typename Isa::template Multiplier<8, D>>(p);
    return spmm<Isa, D, typename Isa::template Multiplier<16, D>>(p);
}

template <class Isa>
void spmm_any_dtype(const Problem& p) {
    p.dtype == Dtype::fp16 ? spmm_any_N<Isa, Dtype::fp16>(p) : spmm_any_N<Isa, Dtype::bf16>(p);
}

}  // namespace
}  // namespace lscd
