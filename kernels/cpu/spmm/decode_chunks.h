// The decoder of the Hopper kernels' formats, whose chunks lie in the order of those kernels, not in
// that of columns: a whole row block becomes dense first, and goes into strips from there. So their
// weights can be used without such a GPU; the formats that are fast on a CPU are the others.
#pragma once
#include "../encode/unpack.h"
#include "buffer.h"
#include "decode.h"

namespace lscd {
namespace {

// K blocks must come in order: the first one fills the rows. Step: as of DenseDecoder.
template <class Step>
struct ChunksDecoder final : Decoder {
    const Problem& p;
    UnpackRows& unpack;
    Buffer<u16> dense;  // [rows, K]

    ChunksDecoder(const Problem& p, UnpackRows& unpack)
        : Decoder(64), p(p), unpack(unpack), dense(rows * p.K) {}

    bool ready() const override { return dense.data; }

    void block(i64 row_block, i64 k_block, u16* strips) override {
        if (k_block == 0) {
            memset(dense.data, 0, rows * p.K * sizeof(u16));
            unpack(p.A, p.M, p.K, row_block, dense.data);
        }
        DenseDecoder<Step> from(dense.data, rows, p.K);
        for (i64 s = 0; s < rows / STRIP_ROWS; s++) from.block(s, k_block, strips + s * STRIP);
    }
};

}  // namespace
}  // namespace lscd
