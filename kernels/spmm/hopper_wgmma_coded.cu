// Launches the product of hopper_wgmma_product.cuh, of a code for each pair of weights and a stream of words for each
// lane.
#include "hopper_wgmma_launch.cuh"
#include "hopper_wgmma_streams.cuh"

namespace lscd {

cudaError_t launch_wgmma_coded(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_strips<CodedStrips>(p, stream);
}

}  // namespace lscd
