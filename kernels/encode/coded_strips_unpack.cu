// Codes of pairs in strips on the GPU, back to a dense matrix (banks_unpack.cuh).
#include "banks_unpack.cuh"
#include "coded_strips.cuh"

using namespace lscd;
using namespace lscd::coded;

// Writes dense [M, K], zeros included: a matrix, or whole 64 rows of one, whose first chunk is that
// of chunk_start[0].
LSCD_EXPORT int lscd_coded_strips_unpack(const uint4* data, const int* chunk_start, int64_t M, int64_t K,
                                         uint16_t* dense, cudaStream_t stream) {
    return launch_unpack<WARPS>(unpack<Layout>, WARP_BYTES<Layout>, data, chunk_start, M, K, dense, stream);
}
