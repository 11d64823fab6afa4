// Blocks of a grid that wait for each other, with one fault each, for tests/test_emulator_flags.py: a launch
// has three blocks of 32 threads. Words 0 to 31 of C are what one block stores for another, 64 and 65 are its flag.
#include "probe.cuh"

namespace lscd {
namespace {

struct Words {
    int* data;
    uint64_t* flag;
    int i = int(threadIdx.x), block = int(blockIdx.x);

    __device__ explicit Words(const Problem& p)
        : data(static_cast<int*>(p.C)), flag(reinterpret_cast<uint64_t*>(data + 64)) {}

    __device__ void put(bool together = true) const {
        st_global(data + i, i);
        if (together) __syncwarp();
        if (i == 31) set_flag(flag);
    }
    __device__ void take() const { st_global(data + 96 + i, ld_global(data + i)); }
    // Two blocks store and wait; the other one has nothing to do.
    __device__ void hand_over(int from, int to, bool together = true) const {
        if (block == from) return put(together);
        if (block != to) return;
        wait_for_flag(flag);
        take();
        __syncwarp();
        if (i == 0) unset_flag(flag);
    }
};

__global__ void one_waits_for_another(const __grid_constant__ Problem p) {
    Words(p).hand_over(0, 2);
}

__global__ void no_wait_for_the_flag(const __grid_constant__ Problem p) {
    Words words(p);
    if (words.block == 0) words.put();
    if (words.block == 2) words.take();
}

__global__ void a_flag_before_others_have_stored(const __grid_constant__ Problem p) {
    Words(p).hand_over(0, 2, false);
}

__global__ void a_wait_for_a_later_block(const __grid_constant__ Problem p) {
    Words(p).hand_over(2, 0);
}

__global__ void a_flag_set_twice(const __grid_constant__ Problem p) {
    Words words(p);
    if (words.i == 0) set_flag(words.flag);
}

__global__ void a_flag_that_stays_set(const __grid_constant__ Problem p) {
    Words words(p);
    if (words.block == 0) words.put();
    if (words.block == 2) wait_for_flag(words.flag), words.take();
}

__global__ void a_flag_taken_away_before_others_have_seen_it(const __grid_constant__ Problem p) {
    Words words(p);
    if (words.block == 0) words.put();
    if (words.block != 2) return;
    wait_for_flag(words.flag);
    if (words.i == 0) unset_flag(words.flag);
}

__global__ void a_flag_taken_away_unseen(const __grid_constant__ Problem p) {
    Words words(p);
    if (words.i == 0) unset_flag(words.flag);
}

__global__ void two_store_one_word(const __grid_constant__ Problem p) {
    Words words(p);
    st_global(words.data + words.i, words.block);
}

}  // namespace
}  // namespace lscd

using namespace lscd;

#define FLAGS(kernel) PROBE_OF(kernel, kernel, 3, 32)
FLAGS(one_waits_for_another)
FLAGS(no_wait_for_the_flag)
FLAGS(a_flag_before_others_have_stored)
FLAGS(a_wait_for_a_later_block)
FLAGS(a_flag_set_twice)
FLAGS(a_flag_that_stays_set)
FLAGS(a_flag_taken_away_before_others_have_seen_it)
FLAGS(a_flag_taken_away_unseen)
FLAGS(two_store_one_word)
