// The self-test of wgmma.sp, on a tensor core that brings the two indices of each group in ascending order.
#include <deque>

#include "../../kernels/common/wgmma.cuh"
#include "ascending.cuh"

namespace lscd {

template <class T, int N, int STEP>
void wgmma_sp_of_sorted(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, uint32_t metadata,
                        uint32_t adds) {
    static thread_local std::deque<uint32_t> registers;  // where they stay until the wait, and longer
    wgmma_sp_m64k32<T, N, STEP>(d, a, b, registers.emplace_back(ascending(metadata)), adds);
}

}  // namespace lscd

#define wgmma_sp_m64k32 wgmma_sp_of_sorted
#include "../../kernels/spmm/hopper_wgmma_select.cu"

extern "C" __attribute__((visibility("default"))) int lscd_cuda_wgmma_select(int32_t* wrong,
                                                                             cudaStream_t stream) {
    return lscd::launch_wgmma_select(wrong, stream);
}
