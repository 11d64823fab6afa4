// What products and encoders of bitmap_strips share: where the parts of a chunk are, in bytes
// (kernels/cpu/encode/bitmap_strips.h). Bits of a bitmap's word stand where lane_24_strips has those of a
// step's halves: first_half_bit(i) is that of register i's first half, the second one's is eight above, and
// own_halves(bits, i) are the halves that register i has, as ones.
#pragma once
#include "lane_24.cuh"

namespace lscd {

struct BitmapChunk {
    static constexpr int BANKS = 512, LINES = 640, LINE_BYTES = 128, MOST_LINES = 64;
};

}  // namespace lscd
