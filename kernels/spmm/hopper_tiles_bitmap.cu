// The product of hopper_tiles_product.cuh, of TCA-BME.
#include "hopper_tiles_bitmap.cuh"
#include "hopper_tiles_product.cuh"

namespace lscd {

cudaError_t launch_tiles_bitmap(const WgmmaProblem& p, cudaStream_t stream) {
    return launch_by_tiles<Bitmaps>(p, stream);
}

}  // namespace lscd
