// What products and encoders of coded_strips share: where the parts of a chunk are, in bytes, and what the code of a
// pair of weights says (kernels/cpu/encode/coded_strips.h):
//
//   0  neither has a value            4  the first one, from the first half of the next word
//   3  the second one, from the       5  the second one, from there
//      second half of the word of     6  both, from the next word
//      the pair before                7  the first one, from the second half of the word of the pair before
#pragma once
#include "base.cuh"

namespace lscd {

struct CodedChunk {
    static constexpr int CODES_OF_SECOND = 512, BANKS = 768, LINES = 768, LINE_BYTES = 128, MOST_LINES = 65;
    // So many banks begin a line below: the table of banks stands in place of their first words.
    static constexpr int BEGIN_BELOW = 8;

    // Of the codes in nibbles: their bits; of the eighth to spare, where it is put together.
    static constexpr uint32_t CODES = 0x77777777, LOWEST = 0x11111111;
    // The fourth eight codes of 32, of which each of three words has a bit in each nibble's highest one.
    __host__ __device__ static constexpr uint32_t fourth(uint32_t w0, uint32_t w1, uint32_t w2) {
        return (w0 >> 3 & LOWEST) | (w1 >> 2 & LOWEST << 1) | (w2 >> 1 & LOWEST << 2);
    }
};

}  // namespace lscd
