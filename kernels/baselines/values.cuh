// 16-bit values in vectors of 1, 2, 4 or 8, loaded in one instruction and multiplied in fp32.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "../common/base.cuh"

namespace lscd {

template <int BYTES>
struct WordOf;
template <>
struct WordOf<2> { using type = unsigned short; };
template <>
struct WordOf<4> { using type = unsigned int; };
template <>
struct WordOf<8> { using type = uint2; };
template <>
struct WordOf<16> { using type = uint4; };

// COUNT values of T. `cached` reads through L1, `streamed` marks what is read once as first to go.
template <class T, int COUNT>
struct Vector {
    using Word = typename WordOf<COUNT * sizeof(T)>::type;
    T data[COUNT];

    __device__ static Vector cached(const T* from) { return of(__ldg(reinterpret_cast<const Word*>(from))); }
    __device__ static Vector streamed(const T* from) {
        return of(__ldcs(reinterpret_cast<const Word*>(from)));
    }

  private:
    __device__ static Vector of(Word word) {
        Vector vector;
        memcpy(vector.data, &word, sizeof(word));
        return vector;
    }
};

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ inline float warp_sum(float value, int lanes = 32) {
    for (int distance = lanes / 2; distance; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

}  // namespace lscd
