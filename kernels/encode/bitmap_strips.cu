// Bitmaps in strips on the GPU: sizes and bytes of chunks (banks_pack.cuh).
#include "banks_pack.cuh"
#include "bitmap_strips.cuh"

using namespace lscd;
using namespace lscd::bitmap;

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT int lscd_bitmap_strips_size(const uint16_t* dense, int64_t M, int64_t K, int* sizes,
                                        cudaStream_t stream) {
    return launch_size<Layout>(dense, M, K, sizes, stream);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT int lscd_bitmap_strips_pack(const uint16_t* dense, int64_t M, int64_t K,
                                        const int* chunk_start, uint4* data, cudaStream_t stream) {
    return launch_pack<Layout>(dense, M, K, chunk_start, data, stream);
}
