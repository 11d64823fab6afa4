// Launches the product of hopper_wgmma_product.cuh, of zero-row 2:4 in strips.
#include "hopper_wgmma_launch.cuh"
#include "hopper_wgmma_zero_row.cuh"

namespace lscd {

cudaError_t launch_wgmma(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_strips<ZeroRowStrips>(p, stream);
}

}  // namespace lscd
