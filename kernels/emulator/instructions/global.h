// Loads and stores of global memory, by CUDA's names and those of common/ptx.cuh; grids in their order.
#pragma once
#include "floats.h"

namespace lscd {

template <class T>
T ld_global(const T* from, simt::Site site = simt::here(), bool movable = false) {
    check_global("load", from, sizeof(T), sizeof(T), false, site, movable);
    if (!movable) note_load(from, sizeof(T), site);  // __ldg reads what nobody stores
    simt::note({simt::Op::global_load, site, {}, {int64_t(from), sizeof(T)}});
    return *from;
}
template <class T>
void st_global(T* to, T value, simt::Site site = simt::here()) {
    static_assert(sizeof(T) <= 16, "the largest store");
    check_global("store", to, sizeof(T), sizeof(T), true, site);
    note_store(to, &value, sizeof(T), site);
    simt::note({simt::Op::global_store, site, {}, {int64_t(to), sizeof(T)}});
    *to = known(value, site);
}
template <class T>
void st_global(T* to, const T& value, uint64_t policy, simt::Site site = simt::here()) {
    (void)policy;  // what the L2 keeps changes no value
    st_global(to, value, site);
}

// One grid runs after another, whatever they say: only what a kernel may not touch yet is known.
inline void wait_for_previous_grid() { simt::Block::lane->after_grid = true; }
inline void let_next_grid_begin() {}

}  // namespace lscd

template <class T>
T __ldg(const T* from, lscd::simt::Site site = lscd::simt::here()) {
    return lscd::ld_global(from, site, true);
}

// Blocks run on several threads; what is there before is not asked for.
inline void atomicMin(long long* to, long long value) {
    long long before = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (value < before && !__atomic_compare_exchange_n(to, &before, value, false, __ATOMIC_RELAXED,
                                                          __ATOMIC_RELAXED)) {}
}
