// Bitmaps in strips on the GPU: counting non-zeros, and what can be wrong with a chunk (banks_read.cuh).
#include "banks_read.cuh"
#include "bitmap_strips.cuh"

using namespace lscd;
using namespace lscd::bitmap;

// found: the first chunk that has a problem. The offsets are sound.
LSCD_EXPORT int lscd_bitmap_strips_check(const uint8_t* data, const int* chunk_start, int64_t M, int64_t K,
                                         long long* found, cudaStream_t stream) {
    return launch_check<Layout>(data, chunk_start, M, K, found, stream);
}

// nnz [chunks].
LSCD_EXPORT int lscd_bitmap_strips_count(const uint8_t* data, const int* chunk_start, int64_t chunks,
                                         int* nnz, cudaStream_t stream) {
    return launch_count<Layout>(data, chunk_start, chunks, nnz, stream);
}
