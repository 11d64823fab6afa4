// The way into the GPU kernels, for backends/cuda.py. Everything has been checked there; what comes
// back is a cudaError_t.
#include <algorithm>

#include "../common/store.cuh"
#include "kernels.cuh"

#define LSCD_EXPORT extern "C" __attribute__((visibility("default")))

namespace lscd {
namespace {

enum class Format : int32_t { tiled_csl, tca_bme };

Config configure(Format format, const Problem& p) {
    return format == Format::tiled_csl ? tiled_csl_config(p) : tca_bme_config(p);
}

// C = sum of the partial sums, in the order of the splits: the same bits in every run.
template <class T>
__global__ void reduce_splits(Problem p) {
    int64_t stride = int64_t(p.M) * p.N;
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < stride;
         i += int64_t(gridDim.x) * blockDim.x) {
        float sum = 0;
        for (int part = 0; part < p.split_k; part++) sum += ld_global(p.partial + part * stride + i);
        round_to(static_cast<T*>(p.C) + i / p.M * p.ldc + i % p.M, sum);
    }
}

template <class T>
cudaError_t reduce(const Problem& p, cudaStream_t stream) {
    int blocks = int(std::min<int64_t>((int64_t(p.M) * p.N + 255) / 256, 4096));
    void* arguments[] = {const_cast<Problem*>(&p)};
    return cudaLaunchKernel((const void*)reduce_splits<T>, blocks, 256, arguments, 0, stream);
}

cudaError_t launch(const Config& config, const Problem& p, cudaStream_t stream) {
    if (cudaError_t error = config.allow_shared()) return error;
    void* arguments[] = {const_cast<Problem*>(&p)};
    cudaError_t error = cudaLaunchKernel(config.kernel, config.grid(p), dim3(config.threads), arguments,
                                         config.shared_bytes, stream);
    if (error || p.split_k == 1) return error;
    return p.dtype == Dtype::fp16 ? reduce<__half>(p, stream) : reduce<__nv_bfloat16>(p, stream);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

// What a launch would look like on the current device: the plan is made from it.
struct Shape {
    int32_t block_m, block_n, threads, shared_bytes, blocks_per_sm;
};

LSCD_EXPORT int lscd_cuda_shape(int32_t format, const Problem* p, Shape* shape) {
    Config config = configure(Format(format), *p);
    *shape = {config.block_m, config.block_n, config.threads, config.shared_bytes, 0};
    if (cudaError_t error = config.allow_shared()) return error;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&shape->blocks_per_sm, config.kernel,
                                                         config.threads, config.shared_bytes);
}

LSCD_EXPORT int lscd_cuda_spmm(int32_t format, const Problem* p, cudaStream_t stream) {
    return launch(configure(Format(format), *p), *p, stream);
}

LSCD_EXPORT const char* lscd_cuda_error(int error) { return cudaGetErrorString(cudaError_t(error)); }
