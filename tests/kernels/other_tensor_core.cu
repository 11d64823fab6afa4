// The self-test of mma.sp, on a tensor core that brings the two indices of each group in ascending order.
#include "../../kernels/common/ptx.cuh"

namespace lscd {

inline uint32_t ascending(uint32_t metadata) {
    uint32_t sorted = 0;
    for (int group = 0; group < 8; group++) {
        uint32_t first = metadata >> 4 * group & 3, second = metadata >> (4 * group + 2) & 3;
        sorted |= (first < second ? first | second << 2 : second | first << 2) << 4 * group;
    }
    return sorted;
}

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
