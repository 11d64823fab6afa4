// What a warp has of wgmma under way: the products that it has started and not waited for.
#pragma once
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "shadow.h"

namespace lscd::simt {

constexpr int WARPS_OF_GROUP = 4;

// A wgmma under way, of one warp: the bytes that it reads, in units; the registers, with what was in
// them; where the sums of its first lane are.
struct Wgmma {
    Site site;
    std::vector<int64_t> units;
    std::vector<std::pair<const uint32_t*, uint32_t>> registers;
    float* sums;

    void hold(const uint32_t* a, const uint32_t* metadata) {
        for (int r = 0; r < 4; r++) registers.emplace_back(a + r, a[r]);
        registers.emplace_back(metadata, *metadata);
    }
};

// Registers that wgmma sums in: where they are in each lane, and what will be in them.
struct Sums {
    Site site = {nullptr, 0};  // of the latest wgmma
    int under_way = 0;
    std::vector<float*> lanes = {};
    std::vector<float> values = {};  // [lane][number]
};

struct WgmmaQueue {
    std::vector<Wgmma> open = {};               // in no group yet
    std::deque<std::vector<Wgmma>> groups = {};
    std::map<float*, Sums> sums = {};           // by the first lane's
    bool fenced = false;                        // since the group before

    // The one that was started first, if any.
    const Wgmma* oldest() const {
        for (const auto& group : groups)
            if (!group.empty()) return &group[0];
        return open.empty() ? nullptr : &open[0];
    }
};

}  // namespace lscd::simt
