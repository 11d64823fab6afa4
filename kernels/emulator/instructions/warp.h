// What lanes of a warp do together, by CUDA's names: shuffles, votes, barriers.
#pragma once
#include "../machine/memory.h"

namespace lscd::simt {

// The value that lane `from` brought.
template <class T>
T shuffle(uint32_t mask, T value, int from, Site site) {
    struct Shuffled {
        T value, received;
        int from;
    } mine = {value, value, from};
    note({Op::shuffle, site});
    meet(site, mask, &mine, [](const Party& all) {
        for (int i = 0; i < 32; i++) {
            if (!all.has(i)) continue;
            auto& one = all.of<Shuffled>(i);
            if (!all.has(one.from))
                return "lane " + std::to_string(i) + " shuffles from lane " + std::to_string(one.from) +
                       ", which takes no part";
            one.received = all.of<Shuffled>(one.from).value;
        }
        return std::string();
    });
    return mine.received;
}

// Bit i: what lane i brought.
inline uint32_t vote(uint32_t mask, bool predicate, Site site) {
    struct Voted {
        bool predicate;
        uint32_t ballot;
    } mine = {predicate, 0};
    note({Op::vote, site});
    meet(site, mask, &mine, [](const Party& all) {
        uint32_t ballot = 0;
        for (int i = 0; i < 32; i++)
            if (all.has(i)) ballot |= uint32_t(all.of<Voted>(i).predicate) << i;
        for (int i = 0; i < 32; i++)
            if (all.has(i)) all.of<Voted>(i).ballot = ballot;
        return std::string();
    });
    return mine.ballot;
}

// What its lanes have done and know, all know; all that a warp has done is before what it does now.
inline std::string synchronise(const Party& all) {
    Knowledge known;
    all.each([&](Lane& one) { known.learn(one.known); });
    for (Warp* warp = all.warps; warp < all.warps + all.count; warp++)
        known.learn(warp->number, warp->time++, warp->awaited(all.at));
    all.each([&](Lane& one) { one.known = known; });
    return "";
}

template <class T, class Join>
T reduce(unsigned mask, T value, Join join, Site site) {
    for (int bits = 1; bits < 32; bits *= 2)
        value = join(value, shuffle(mask, value, Block::lane->lane ^ bits, site));
    return value;
}

}  // namespace lscd::simt

inline void __syncthreads(lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::note({lscd::simt::Op::barrier, site});
    lscd::simt::Block::current->meet(
        {site, lscd::simt::Group::block, ~0u, lscd::simt::synchronise});
}
inline void __syncwarp(unsigned mask = ~0u, lscd::simt::Site site = lscd::simt::here()) {
    lscd::simt::note({lscd::simt::Op::warp_barrier, site});
    meet(site, mask, nullptr, lscd::simt::synchronise);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, lscd::simt::Site site = lscd::simt::here()) {
    return shuffle(mask, value, from & 31, site);  // of any number its lower five bits
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, lscd::simt::Site site = lscd::simt::here()) {
    return shuffle(mask, value, (lscd::simt::Block::lane->lane ^ bits) % 32, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int by, lscd::simt::Site site = lscd::simt::here()) {
    int lane = lscd::simt::Block::lane->lane;
    return shuffle(mask, value, lane >= by ? lane - by : lane, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, lscd::simt::Site site = lscd::simt::here()) {
    int lane = lscd::simt::Block::lane->lane;
    return shuffle(mask, value, lane + by < 32 ? lane + by : lane, site);
}

namespace lscd {
inline uint32_t add_below(uint32_t value, int by, simt::Site site = simt::here()) {
    uint32_t below = __shfl_up_sync(~0u, value, by, site);
    return simt::Block::lane->lane >= by ? value + below : value;
}
// One lane of the warp, which takes part as a whole.
inline bool elected(simt::Site site = simt::here()) {
    simt::note({simt::Op::vote, site});
    meet(site, ~0u, nullptr, [](const simt::Party&) { return std::string(); });
    return simt::Block::lane->lane == 0;
}
}  // namespace lscd

inline unsigned __ballot_sync(unsigned mask, bool predicate,
                              lscd::simt::Site site = lscd::simt::here()) {
    return vote(mask, predicate, site);
}
inline bool __any_sync(unsigned mask, bool predicate, lscd::simt::Site site = lscd::simt::here()) {
    return vote(mask, predicate, site) != 0;
}
inline bool __all_sync(unsigned mask, bool predicate, lscd::simt::Site site = lscd::simt::here()) {
    return vote(mask, !predicate, site) == 0;
}

// Of whole warps.
template <class T>
T __reduce_add_sync(unsigned mask, T value, lscd::simt::Site site = lscd::simt::here()) {
    return reduce(mask, value, [](T a, T b) { return T(a + b); }, site);
}
template <class T>
T __reduce_or_sync(unsigned mask, T value, lscd::simt::Site site = lscd::simt::here()) {
    return reduce(mask, value, [](T a, T b) { return T(a | b); }, site);
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, lscd::simt::Site site = lscd::simt::here()) {
    return reduce(mask, value, [](T a, T b) { return a < b ? a : b; }, site);
}
