// The product of hopper_tiles_product.cuh, of 2:4 with a stream of words for each lane.
#include "hopper_tiles_lanes.cuh"
#include "hopper_tiles_product.cuh"

namespace lscd {

cudaError_t launch_tiles_lanes(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_by_tiles<Lanes>(p, stream);
}

}  // namespace lscd
