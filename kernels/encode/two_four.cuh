// How 2:4 stores a group of four columns (drawing in kernels/cpu/encode/two_four.h), for 2:4 itself
// and for SparTA. A thread holds eight columns: two groups, one byte of indices.
#pragma once
#include "weights.cuh"

namespace lscd {

constexpr int CHUNK = 8;

// Columns of the two places of a group, by the mask of its non-zeros: first | second << 2.
constexpr unsigned slots_of(unsigned mask) {
    unsigned kept = 0, count = 0;
    for (int c = 0; c < 4 && count < 2; c++)
        if (mask >> c & 1) kept |= 1u << c, count++;
    for (int c = 3; count < 2; c--)
        if (!(mask >> c & 1)) kept |= 1u << c, count++;
    unsigned first = 0, second = 3;
    while (!(kept >> first & 1)) first++;
    while (!(kept >> second & 1)) second--;
    return first | second << 2;
}

constexpr uint64_t make_slots() {
    uint64_t slots = 0;
    for (unsigned mask = 0; mask < 16; mask++) slots |= uint64_t(slots_of(mask)) << 4 * mask;
    return slots;
}
constexpr uint64_t SLOTS = make_slots();  // four bits each

struct Slots {
    unsigned code;
    int first, second;  // columns in the group
    __device__ explicit Slots(unsigned code) : code(code), first(code & 3), second(code >> 2 & 3) {}
    __device__ static Slots of_mask(unsigned mask) { return Slots(SLOTS >> 4 * mask & 15); }
};

// The eight weights of chunk i, counted along the rows.
struct Chunk {
    int64_t row, col;
    uint64_t groups[2];
    unsigned mask;

    __device__ Chunk(const Source& dense, int64_t i) {
        int64_t chunks = ceil_div(dense.K, CHUNK);
        row = i / chunks, col = i % chunks * CHUNK;
        uint4 eight = dense.load8(row, col);
        groups[0] = eight.x | uint64_t(eight.y) << 32, groups[1] = eight.z | uint64_t(eight.w) << 32;
        mask = nonzero_mask(eight);
    }
    __device__ Slots slots(int group) const { return Slots::of_mask(mask >> 4 * group & 15); }
    __device__ uint64_t weight(int group, int col) const { return groups[group] >> 16 * col & 0xffff; }
};

__device__ inline uint4 as_eight(uint64_t low, uint64_t high) {
    return make_uint4(uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32));
}

__device__ inline int64_t thread_number() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

}  // namespace lscd
