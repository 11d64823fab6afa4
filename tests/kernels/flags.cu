// Blocks of a grid that wait for each other, with one fault each, for tests/test_emulator_flags.py: a launch
// has three blocks of 32 threads. Words 0 to 31 of C are what one block stores for another, 64 is its flag.
#include "probe.cuh"

namespace lscd {
namespace {

struct Words {
    int* data;
    uint32_t* flag;
    int i = int(threadIdx.x), block = int(blockIdx.x);

    __device__ explicit Words(const Problem& p)
        : data(static_cast<int*>(p.C)), flag(static_cast<uint32_t*>(p.C) + 64) {}

    __device__ void put(bool together = true) const {
        st_global(data + i, i);
        if (together) __syncwarp();
        if (i == 0) st_release(flag, 1u);
    }
    __device__ void take() const { st_global(data + 96 + 32 * block + i, ld_global(data + i)); }
    // One block stores, the others wait for it.
    __device__ void hand_over(int from, bool together = true) const {
        if (block == from) return put(together);
        wait_for_flag(flag);
        take();
    }
};

__global__ void two_wait_for_one(const __grid_constant__ Problem p) {
    Words(p).hand_over(0);
}

__global__ void no_wait_for_the_flag(const __grid_constant__ Problem p) {
    Words words(p);
    words.block == 0 ? words.put() : words.take();
}

__global__ void a_flag_before_others_have_stored(const __grid_constant__ Problem p) {
    Words(p).hand_over(0, false);
}

__global__ void a_wait_for_a_later_block(const __grid_constant__ Problem p) {
    Words(p).hand_over(2);
}

__global__ void a_flag_set_twice(const __grid_constant__ Problem p) {
    Words words(p);
    if (words.i == 0) st_release(words.flag, 1u);
}

__global__ void two_store_one_word(const __grid_constant__ Problem p) {
    Words words(p);
    st_global(words.data + words.i, words.block);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

#define FLAGS(kernel) PROBE_OF(kernel, kernel, 3, 32)
FLAGS(two_wait_for_one)
FLAGS(no_wait_for_the_flag)
FLAGS(a_flag_before_others_have_stored)
FLAGS(a_wait_for_a_later_block)
FLAGS(a_flag_set_twice)
FLAGS(two_store_one_word)
