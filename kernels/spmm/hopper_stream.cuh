// What a lane takes from a chunk whose lanes have banks (kernels/cpu/encode/banks.h), as A registers of dense products:
// the kernel for strips multiplies these, the one by tiles stores them. BitmapStream and CodedStream have
//
//   Header(chunk, lane)            what the lane has in front of the lines
//   Stream(chunk, lane, header)
//   take<WORD, FROM, TO>(header, put)   the registers of a word, in their order: put(i, value) for each
#pragma once
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

struct StreamOfLane {
    static constexpr int WORDS = 4, REGISTERS = 16;  // of a lane; of a word: four products of 16 columns
    static constexpr int WORDS_OF_HALF = 2;          // of columns, each of which has a bank of its own
};

}  // namespace
}  // namespace lscd
