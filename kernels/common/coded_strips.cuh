// What products and encoders of coded_strips share: where the parts of a chunk are, in bytes
// (kernels/cpu/encode/coded_strips.h). Banks are in the first line, in place of the first word of banks 0 to 7.
//
// A code says of a register's two weights, `first` and `second`, which of them are there, and in which half of a word:
//
//   0   neither
//   3   second, from its word's second half    the word of the pair before
//   4   first, from the first half             the next word
//   5   second, from the first half            the next word
//   6   both                                   the next word
//   7   first, from its word's second half     the word of the pair before
#pragma once

namespace lscd {

struct CodedChunk {
    static constexpr int CODES_OF_SECOND = 512, BANKS = 768, LINES = 768, LINE_BYTES = 128, MOST_LINES = 65;
};

}  // namespace lscd
