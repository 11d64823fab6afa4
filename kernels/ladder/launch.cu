// The way into the ladder, for lab_utils/ladder/launch.py: the functions of kernels/spmm/launch.cu,
// with the number of a kernel in the order of ladder.cuh in place of a format.
#include "../common/launch.cuh"
#include "ladder.cuh"

using namespace lscd;

static Config configure(int32_t rung, const Problem& p) {
    constexpr Config (*CONFIGS[])(const Problem&) = {
        tiled_csl_1_dense_config,         tiled_csl_2_sparse_config,
        tiled_csl_3_registers_config,     tiled_csl_4_zeroing_config,
        tiled_csl_5_double_buffer_config, tiled_csl_7_shares_config,
        tca_bme_1_two_popcounts_config,   tca_bme_2_running_count_config,
        tca_bme_3_pipeline_config,
    };
    return CONFIGS[rung](p);
}

LSCD_EXPORT int lscd_cuda_shape(int32_t rung, const Problem* p, Shape* shape) {
    return told(shape_of(configure(rung, *p), *p, shape));
}

LSCD_EXPORT int lscd_cuda_spmm(int32_t rung, const Problem* p, cudaStream_t stream) {
    return told(launch(configure(rung, *p), *p, stream));
}

LSCD_EXPORT const char* lscd_cuda_error(int error) { return cudaGetErrorString(cudaError_t(error)); }
