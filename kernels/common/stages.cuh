// Leaving out one stage of the kernels, to see what it costs: -DLSCD_LEFT_OUT=extract.
//
// The results are wrong then; only the time says something: full kernel minus kernel without the
// stage is the part of the stage that nothing else hides. A stage that overlaps with others perfectly
// costs nothing, and the costs of all stages need not add up to the whole. What the left-out stage
// would have written stays what it was for the first tiles, so that later stages do the same work.
#pragma once
#include "problem.cuh"

namespace lscd {

enum class Stage { none, rst_smem, gmem2reg, ld_sparse, ld_dense, extract, decode, smem2tc };

#ifndef LSCD_LEFT_OUT
#define LSCD_LEFT_OUT none
#endif

// Whether this build leaves a stage out, for all tiles: where what it would have written is no operand
// of the others.
__host__ __device__ constexpr bool left_out(Stage stage) { return stage == Stage::LSCD_LEFT_OUT; }

// Whether a stage runs for tile t of a worker: always, unless it is left out. Then it runs for the
// first three only: they fill all buffers. The compiler cannot know that M is never negative; if it
// did, it would remove the stages whose results nobody uses together with the left-out one.
struct Stages {
    const Problem& p;
    const Share& share;

    __device__ bool run(Stage stage, int t) const {
        return stage != Stage::LSCD_LEFT_OUT || t < share.first + 3 || p.M < 0;
    }
};

}  // namespace lscd
