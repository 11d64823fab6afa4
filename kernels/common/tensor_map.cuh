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

inline cudaError_t encode_tensor_map(TensorMap* map, Dtype dtype, const void* matrix, cuuint32_t rank,
                                     const cuuint64_t* sizes, const cuuint64_t* pitches, const cuuint32_t* box) {
    static const auto encode = tensor_map_encoder();  // looked up once
    if (!encode) return cudaErrorNotSupported;
    auto type = dtype == Dtype::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const cuuint32_t strides[] = {1, 1, 1};
    CUresult error = encode(map, type, rank, const_cast<void*>(matrix), sizes, pitches, box, strides,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return error == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// A matrix [rows][pitch] of `cols` columns, in tiles of `tile_rows` x TENSOR_COLS. It begins on 16 bytes, as do
// its rows; at most 256 tile_rows.
inline cudaError_t make_tensor_map(TensorMap* map, Dtype dtype, const void* matrix, int rows, int cols,
                                   int64_t pitch, int tile_rows) {
    const cuuint64_t sizes[] = {cuuint64_t(cols), cuuint64_t(rows)}, pitches[] = {cuuint64_t(pitch) * 2};
    const cuuint32_t box[] = {TENSOR_COLS, cuuint32_t(tile_rows)};
    return encode_tensor_map(map, dtype, matrix, 2, sizes, pitches, box);
}

// The same matrix of `blocks` x TENSOR_COLS columns, whose tiles have several blocks, one behind the other. So the
// last dimension's pitch is less than the one before's, as of maps of heads inside tokens, which are widely used.
inline cudaError_t make_blocks_map(TensorMap* map, Dtype dtype, const void* matrix, int rows, int blocks,
                                   int64_t pitch, int tile_rows, int tile_blocks) {
    const cuuint64_t sizes[] = {TENSOR_COLS, cuuint64_t(rows), cuuint64_t(blocks)};
    const cuuint64_t pitches[] = {cuuint64_t(pitch) * 2, TENSOR_COLS * 2};
    const cuuint32_t box[] = {TENSOR_COLS, cuuint32_t(tile_rows), cuuint32_t(tile_blocks)};
    return encode_tensor_map(map, dtype, matrix, 3, sizes, pitches, box);
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
// The same of a map of blocks: one instruction for them all.
__device__ inline void tensor_copy_blocks(Address to, const TensorMap* map, int row, int block, Address barrier,
                                          uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
        "l"(map), "r"(0), "r"(row), "r"(block), "r"(barrier), "l"(policy)
        : "memory");
}

}  // namespace lscd

#endif
