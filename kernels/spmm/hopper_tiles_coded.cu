// The product of hopper_tiles_product.cuh, of a code for each pair of weights and a stream of words for each lane.
#include "hopper_tiles_product.cuh"
#include "hopper_tiles_streams.cuh"

namespace lscd {

cudaError_t launch_tiles_coded(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_by_tiles<Streams<CodedStream>>(p, stream);
}

}  // namespace lscd
