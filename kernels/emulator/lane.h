// Lanes and warps: threads of a block, each a fiber, and the 32 of them that meet for collective
// operations.
#pragma once
#include <deque>

#include "count.h"
#include "fiber.h"
#include "mbarrier.h"
#include "warpgroup.h"

namespace lscd::simt {

struct Index {
    unsigned x, y, z;

    std::string text() const {
        return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    }
};

// What lanes do together, once all have come: operands[lane] is what each of `lanes` brought. Returns
// what is wrong, or nothing.
using Together = std::string (*)(struct Warp& warp, uint32_t lanes, void** operands);

// The same of a warpgroup, four warps: operands[32 * warp + lane].
using WithWarpgroup = std::string (*)(struct Warp* warps, void** operands, Site site);

struct Copy {  // a cp.async of 16 bytes under way
    int64_t to;
    Site site;
    unsigned char data[16];
};

struct Lane {
    enum State { ready, waiting, in_warpgroup, at_barrier, at_phase, ended };

    Fiber fiber;
    State state = ready;
    int warp, lane;
    Index thread;
    // Where it waits, for which lanes, to do what, with what.
    Site site = {nullptr, 0};
    uint32_t with = 0;
    Together action = nullptr;
    WithWarpgroup group_action = nullptr;
    void* operands = nullptr;
    // At an mbarrier: where it is, and which phase must be over.
    int64_t mbarrier = 0;
    uint32_t parity = 0;

    Knowledge known;                // through mbarriers
    bool after_grid = false;        // whether it has waited for the grid before
    std::vector<Access> accesses;  // since its warp last met
    std::vector<Copy> copies;      // not committed yet
    std::deque<std::vector<Copy>> groups;

    bool meets(const Lane& other) const {
        return state == waiting && other.state == waiting && action == other.action &&
               site == other.site && with == other.with;
    }
    bool meets_warpgroup(const Lane& other) const {
        return state == in_warpgroup && other.state == in_warpgroup && site == other.site &&
               group_action == other.group_action;
    }
    std::string whereabouts() const {
        if (state == ended) return "have ended";
        if (state == at_barrier) return "wait at the barrier of " + site.text();
        if (state == in_warpgroup) return "wait for their warpgroup at " + site.text();
        if (state == at_phase)
            return "wait for the mbarrier at shared address " + std::to_string(mbarrier) + " at " +
                   site.text();
        return "wait for " + lanes_text(with) + " at " + site.text();
    }
};

struct Warp {
    int number = 0, epoch = 1;  // epochs count how often its lanes have synchronised
    Lane* lanes[32] = {};       // null: the block has no such thread
    WgmmaQueue wgmmas;

    uint32_t present() const {
        uint32_t mask = 0;
        for (int i = 0; i < 32; i++) mask |= uint32_t(lanes[i] != nullptr) << i;
        return mask;
    }
    uint32_t alive() const {
        uint32_t mask = 0;
        for (int i = 0; i < 32; i++)
            if (lanes[i] && lanes[i]->state != Lane::ended) mask |= 1u << i;
        return mask;
    }
    // Whether all lanes that `first` waits for, and that have not ended, have come.
    bool met(const Lane& first) const {
        for (int i = 0; i < 32; i++)
            if ((first.with & alive()) >> i & 1 && !lanes[i]->meets(first)) return false;
        return true;
    }
};

}  // namespace lscd::simt
