// Launches the product of hopper_wgmma_product.cuh, of a bitmap and a stream of values for each lane.
#include "hopper_wgmma_launch.cuh"
#include "hopper_wgmma_streams.cuh"

namespace lscd {

cudaError_t launch_wgmma_bitmap(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_strips<BitmapStrips>(p, stream);
}

}  // namespace lscd
