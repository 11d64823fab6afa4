// The self-test of mma.sp, on a tensor core that brings the two indices of each group in ascending order.
#include "../../kernels/common/ptx.cuh"
#include "ascending.cuh"

namespace lscd {

template <class T, int STEP>
void mma_sp_of_sorted(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                      uint32_t metadata) {
    mma_sp_m16n8k32<T, STEP>(d, a, b, ascending(metadata));
}

}  // namespace lscd

#define mma_sp_m16n8k32 mma_sp_of_sorted
#include "../../kernels/spmm/hopper_select.cu"

extern "C" __attribute__((visibility("default"))) int lscd_cuda_select(int32_t* wrong,
                                                                       cudaStream_t stream) {
    return lscd::launch_select(wrong, stream);
}
