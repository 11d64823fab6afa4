// The product of hopper_tiles_product.cuh, of TCA-BME.
#include "hopper_tiles_product.cuh"
#include "hopper_tiles_tca_bme.cuh"

namespace lscd {

cudaError_t launch_tiles_tca_bme(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_by_tiles<TcaBme>(p, stream);
}

}  // namespace lscd
