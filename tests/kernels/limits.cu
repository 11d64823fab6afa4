// Launches of M rows of blocks that do nothing, with K bytes of shared memory each: what a GPU can launch.
#include "../../kernels/common/config.cuh"
#include "../../kernels/common/base.cuh"

namespace lscd {
namespace {

template <bool ALLOWED>
__global__ void nothing(const __grid_constant__ Problem) {}

template <bool ALLOWED>
int launch(const Problem* p) {
    auto kernel = (const void*)nothing<ALLOWED>;
    if (ALLOWED) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
    void* arguments[] = {const_cast<Problem*>(p)};
    return cudaLaunchKernel(kernel, dim3(1, p->M), dim3(32), arguments, p->K, nullptr);
}

}  // namespace
}  // namespace lscd

LSCD_EXPORT int probe_always(const lscd::Problem* p) { return lscd::launch<false>(p); }
LSCD_EXPORT int probe_allowed(const lscd::Problem* p) { return lscd::launch<true>(p); }
