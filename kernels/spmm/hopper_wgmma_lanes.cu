// Launches the product of hopper_wgmma_product.cuh, of 2:4 with a stream of words for each lane.
#include "hopper_wgmma_lanes.cuh"
#include "hopper_wgmma_launch.cuh"

namespace lscd {

cudaError_t launch_wgmma_lanes(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_strips<LaneStrips>(p, stream);
}

}  // namespace lscd
