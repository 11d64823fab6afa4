// The way into the GPU kernels, for backends/launch.py. Everything has been checked there; what comes
// back is a cudaError_t. Read on in this order:
//
//   tiled_csl.cu, tca_bme.cu   the published designs (backends/published.py), from parts of ../common:
//                              grid, copies, dense operand, fragments, sums
//   kernels.cuh                how they are configured
//
//   hopper.cuh                 zero-row 2:4, up to 16 columns (backends/hopper.py): what a launch is told,
//                              who has which chunks (chunk_shares.py), what both Hopper kernels share
//   hopper_mma.cu              its kernels, the product and add_segments, and their launch
//   hopper_block, _ring,       what a thread block does: chunks come in; metadata and values become fragments;
//     _chunk, _product,        these meet rows of B; sums become C
//     _segments
//   hopper_dense, _eights      B's way into shared memory
//   hopper_select, _probe      the self-test of the tensor core
//
//   hopper_wgmma.cuh           strips, of 2:4 for 17 columns and more (backends/hopper_wgmma.py): what a
//                              launch is told; who has which rounds: row_blocks.py, warp_starts.py
//   hopper_wgmma_product.cuh   its three kernels in one picture; the product: a thread block's segments
//   ..._warp, _chunk, _launch  a warp; a chunk of 2:4 times its tile of B'; launching all three
//   ..._expand, _columns       B' for all thread blocks; B as it lies
//   ..._walk, _copies          what a thread block copies next; what copies of chunks and tiles share
//   ..._stages, _ends          rings of chunks: in stages, or with two ends
//   ..._dense                  the ring of tiles of B' or B
//   ..._places, _quarters      tiles of B in quarters of a round: where they are; who leaves and who fetches them
//   ..._zero_row, _lanes       a chunk of either format becomes registers of wgmma.sp
//   ..._streams                a chunk of bitmap_strips or coded_strips, registers of dense products
//   hopper_stream, _bitmap,    how it becomes these
//     _coded
//   ..._entries, _slots        weights without a slot; sums on their way to C
//   hopper_wgmma_select        the self-test
//
//   hopper_tiles.cuh           hundreds of columns (backends/hopper_tiles.py): places in shared memory, and who
//                              waits for whom
//   hopper_tiles_product.cuh   its kernels: the product, add_parts
//   ..._strip, _chunks         a warp's strip of each tile; its ring of chunks
//   ..._lanes, _streams        chunks of lane_24_strips, bitmap_strips and coded_strips become dense
//   ..._tca_bme, _groups       so does TCA-BME; its way into shared memory
//   ..._sums                   sums on their way to C
//
// hopper.md, hopper_wgmma.md and hopper_tiles.md say why. Of words with two meanings: a *stage* is one of a
// kernel's steps that can be left out (../common/stages.cuh), or room for a copy in a ring; a *block* is 64 rows
// of a slice of A, a *thread block* works on many; a *segment* is what a warp (hopper) or a thread block
// (hopper_wgmma) has of one; a *line* is 128 bytes of memory, and of the words of lane_24_strips.
#include "../common/launch.cuh"
#include "hopper.cuh"
#include "hopper_wgmma.cuh"
#include "kernels.cuh"

namespace lscd {
namespace {

enum class Format : int32_t { tiled_csl, tca_bme };

Config configure(Format format, const Problem& p) {
    return format == Format::tiled_csl ? tiled_csl_config(p) : tca_bme_config(p);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

LSCD_EXPORT int lscd_cuda_shape(int32_t format, const Problem* p, Shape* shape) {
    return told(shape_of(configure(Format(format), *p), *p, shape));
}

LSCD_EXPORT int lscd_cuda_spmm(int32_t format, const Problem* p, cudaStream_t stream) {
    return told(launch(configure(Format(format), *p), *p, stream));
}

LSCD_EXPORT int lscd_cuda_hopper(const HopperProblem* p, cudaStream_t stream) {
    return told(launch_hopper(*p, stream));
}

LSCD_EXPORT int lscd_cuda_select(int32_t* wrong, cudaStream_t stream) {
    return told(launch_select(wrong, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_wgmma(*p, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma_lanes(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_wgmma_lanes(*p, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma_bitmap(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_wgmma_bitmap(*p, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma_coded(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_wgmma_coded(*p, stream));
}

LSCD_EXPORT int lscd_cuda_tiles_coded(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_tiles_coded(*p, stream));
}

LSCD_EXPORT int lscd_cuda_tiles_bitmap(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_tiles_bitmap(*p, stream));
}

LSCD_EXPORT int lscd_cuda_tiles_lanes(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_tiles_lanes(*p, stream));
}

LSCD_EXPORT int lscd_cuda_tiles_tca_bme(const WgmmaProblem* p, cudaStream_t stream) {
    return told(launch_tiles_tca_bme(*p, stream));
}

LSCD_EXPORT int lscd_cuda_wgmma_select(int32_t* wrong, cudaStream_t stream) {
    return told(launch_wgmma_select(wrong, stream));
}

LSCD_EXPORT const char* lscd_cuda_error(int error) { return cudaGetErrorString(cudaError_t(error)); }
