// The Hopper kernel on a tensor core that does no more than PTX promises: where it reads metadata whose two
// indices of a group are not ascending, a sum is NaN.
#include <cmath>

#include "../../kernels/common/ptx.cuh"

namespace lscd {

inline bool promised(uint32_t metadata) {
    bool ascending = true;
    for (int group = 0; group < 8; group++, metadata >>= 4) ascending &= (metadata & 3) < (metadata >> 2 & 3);
    return ascending;
}

template <class T, int STEP>
void mma_sp_of_promised(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t metadata) {
    bool reads = threadIdx.x % 4 / 2 == STEP;
    if (reads && !promised(metadata)) d[0] = NAN;
    mma_sp_m16n8k32<T, STEP>(d, a, b, reads && !promised(metadata) ? 0x44444444 : metadata);
}

}  // namespace lscd

#define mma_sp_m16n8k32 mma_sp_of_promised
#include "../../kernels/spmm/hopper_mma.cu"

extern "C" __attribute__((visibility("default"))) int lscd_cuda_hopper(const lscd::HopperProblem* p,
                                                                       cudaStream_t stream) {
    return lscd::launch_hopper(*p, stream);
}
