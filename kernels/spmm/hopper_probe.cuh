// Operands that the self-tests of the tensor core make up.
#pragma once
#include "hopper.cuh"

namespace lscd {
namespace {

__device__ inline uint32_t hashed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// A register of two values.
template <class T>
__device__ inline uint32_t two(float low, float high) {
    T halves[2];
    if constexpr (std::is_same_v<T, __half>)
        halves[0] = __float2half_rn(low), halves[1] = __float2half_rn(high);
    else
        halves[0] = __float2bfloat16_rn(low), halves[1] = __float2bfloat16_rn(high);
    uint32_t pair;
    memcpy(&pair, halves, sizeof pair);
    return pair;
}

// Of one product, 16 slots of A in a row and 32 rows of B: small whole numbers, whose sums are exact. In
// every second one, row 2 of each group of B is NaN, and no index is 2.
struct Operands {
    static constexpr int SLOTS = 16;
    uint32_t seed;

    __device__ bool poisoned() const { return seed % 2; }
    __device__ int number(uint32_t salt, int i) const {
        return int(hashed((seed * 2 + salt) * 9777 + i) % 9) - 4;
    }
    __device__ int a(int row, int slot) const { return number(0, row * SLOTS + slot); }
    __device__ int b(int k, int n) const { return number(1, k * 64 + n); }
    __device__ float b_or_nan(int k, int n) const {
        return poisoned() && k % 4 == 2 ? __int_as_float(0x7fffffff) : float(b(k, n));
    }
    __device__ int index(int row, int slot) const {
        int index = int(hashed(seed * 1131 + row * SLOTS + slot) & 3);
        return poisoned() && index == 2 ? 3 : index;
    }
    __device__ int c(int row, int n) const {
        int sum = 0;
#pragma unroll 1
        for (int slot = 0; slot < SLOTS; slot++)
            sum += a(row, slot) * b(slot / 2 * 4 + index(row, slot), n);
        return sum;
    }
};

}  // namespace
}  // namespace lscd
