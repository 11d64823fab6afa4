// Matrices that the tensor copy engine of sm_90 (TMA) reads: it knows where tiles of them lie, puts these into
// shared memory as wgmma reads them, and zeros in place of what is outside.
#pragma once
#include "problem.cuh"
#include "ptx.cuh"

namespace lscd {

constexpr int TENSOR_COLS = 64;  // of 16 bits: a row of a tile, 128 bytes, as k_major has it (wgmma.cuh)

}  // namespace lscd

#ifdef LSCD_EMULATOR
#include "../emulator/instructions/tensor_map.h"
#else
#include <cuda.h>
#include <cuda_runtime.h>

namespace lscd {

using TensorMap = CUtensorMap;

// The driver's function that makes maps, or nothing.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    constexpr unsigned CUDA_12 = 12000;
    auto error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, CUDA_12, cudaEnableDefault,
                                                  &result);
    return error ? nullptr : reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
}

// A matrix [rows][pitch] of `cols` columns, in tiles of `tile_rows` x TENSOR_COLS. It begins on 16 bytes, as do
// its rows; at most 256 tile_rows.
inline cudaError_t make_tensor_map(TensorMap* map, Dtype dtype, const void* matrix, int rows, int cols,
                                   int64_t pitch, int tile_rows) {
    static const auto encode = tensor_map_encoder();  // looked up once
    if (!encode) return cudaErrorNotSupported;
    auto type = dtype == Dtype::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const cuuint64_t sizes[] = {cuuint64_t(cols), cuuint64_t(rows)}, pitches[] = {cuuint64_t(pitch) * 2};
    const cuuint32_t box[] = {TENSOR_COLS, cuuint32_t(tile_rows)}, strides[] = {1, 1};
    CUresult error = encode(map, type, 2, const_cast<void*>(matrix), sizes, pitches, box, strides,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return error == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// The tile that begins at a row and a column, to a multiple of 1024 bytes; the barrier counts all its bytes,
// zeros included. The map is a __grid_constant__ parameter.
__device__ inline void tensor_copy(Address to, const TensorMap* map, int row, int col, Address barrier,
                                   uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(col), "r"(row), "r"(barrier), "l"(policy)
        : "memory");
}

}  // namespace lscd

#endif
