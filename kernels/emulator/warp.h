// What the lanes of a warp do together, but for its matrices: shuffles, votes, barriers.
#pragma once
#include "memory.h"

namespace lscd::simt {

constexpr uint32_t WHOLE_WARP = ~0u;

// --- shuffles and votes ---

struct Shuffled {
    uint64_t bits;
    int from;  // lane
};

inline std::string exchange(Warp&, uint32_t lanes, void** operands) {
    uint64_t bits[32];
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) bits[i] = static_cast<Shuffled*>(operands[i])->bits;
    for (int i = 0; i < 32; i++) {
        if (!(lanes >> i & 1)) continue;
        auto* mine = static_cast<Shuffled*>(operands[i]);
        if (!(lanes >> mine->from & 1))
            return "lane " + std::to_string(i) + " shuffles from lane " +
                   std::to_string(mine->from) + ", which takes no part";
        mine->bits = bits[mine->from];
    }
    return "";
}

// The value that lane `from` brought.
template <class T>
T shuffle(uint32_t mask, T value, int from, Site site) {
    static_assert(sizeof(T) <= 8);
    Shuffled mine = {0, from};
    memcpy(&mine.bits, &value, sizeof value);
    note({Op::shuffle, site});
    Block::current->meet(site, mask, exchange, &mine);
    memcpy(&value, &mine.bits, sizeof value);
    return value;
}

struct Voted {
    bool predicate;
    uint32_t ballot;
};

inline std::string count_votes(Warp&, uint32_t lanes, void** operands) {
    uint32_t ballot = 0;
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) ballot |= uint32_t(static_cast<Voted*>(operands[i])->predicate) << i;
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) static_cast<Voted*>(operands[i])->ballot = ballot;
    return "";
}

inline uint32_t vote(uint32_t mask, bool predicate, Site site) {
    Voted mine = {predicate, 0};
    note({Op::vote, site});
    Block::current->meet(site, mask, count_votes, &mine);
    return mine.ballot;
}

inline std::string synchronise(Warp& warp, uint32_t lanes, void**) {
    Knowledge all;
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) all.learn(warp.lanes[i]->known);
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) warp.lanes[i]->known = all;
    warp.epoch++;
    return "";
}

inline void sync_warp(uint32_t mask, Site site) {
    note({Op::warp_barrier, site});
    Block::current->meet(site, mask, synchronise, nullptr);
}

}  // namespace lscd::simt
