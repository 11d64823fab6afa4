// The way into the GPU kernels, for backends/launch.py. Everything has been checked there; what comes
// back is a cudaError_t.
#include "../common/launch.cuh"
#include "hopper.cuh"
#include "hopper_wgmma.cuh"
#include "kernels.cuh"

namespace lscd {
namespace {

enum class Format : int32_t { tiled_csl, tca_bme };

// Forgets an error that is told: whoever launches next would find it there.
int told(cudaError_t error) {
    if (error) cudaGetLastError();
    return error;
}

Config configure(Format format, const Problem& p) {
    return format == Format::tiled_csl ? tiled_csl_config(p) : tca_bme_config(p);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

LSCD_EXPORT int lscd_cuda_shape(int32_t format, const Problem* p, Shape* shape) {
    return told(shape_of(configure(Format(format), *p), *p, shape));
}

LSCD_EXPORT int lscd_cuda_spmm(int32_t format, const Problem* p, cudaStream_t stream) {
    return told(launch(configure(Format(format), *p), *p, stream));
}

LSCD_EXPORT int lscd_cuda_hopper(const HopperProblem* p, cudaStream_t stream) {
    return told(launch_hopper(*p, stream));
}

LSCD_EXPORT int lscd_cuda_select(int32_t* wrong, cudaStream_t stream) {
    return told(launch_select(wrong, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_wgmma(*p, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma_lanes(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_wgmma_lanes(*p, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma_select(int32_t* wrong, cudaStream_t stream) {
    return told(launch_wgmma_select(wrong, stream));
}

LSCD_EXPORT const char* lscd_cuda_error(int error) { return cudaGetErrorString(cudaError_t(error)); }
