// The product of hopper_tiles_product.cuh, of a bitmap and a stream of values for each lane.
#include "hopper_tiles_product.cuh"
#include "hopper_tiles_streams.cuh"

namespace lscd {

cudaError_t launch_tiles_bitmap(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_by_tiles<Streams<BitmapStream>>(p, stream);
}

}  // namespace lscd
