// Lanes and warps: threads of a block, each a fiber, and the 32 of them that go together.
#pragma once
#include <functional>

#include "count.h"
#include "fiber.h"
#include "shadow.h"
#include "state.h"

namespace lscd::simt {

struct Index {
    unsigned x, y, z;

    size_t count() const { return size_t(x) * y * z; }
    std::string text() const {
        return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    }
};

enum class Group { warp, warpgroup, block, cluster };
constexpr int WARPS_OF_GROUP = 4;

// Where a lane waits for others of its group - of its warp, for some - and what they do once all have
// come; it returns what is wrong, or nothing.
struct Meeting {
    Site site = {nullptr, 0};
    Group group = Group::warp;
    uint32_t lanes = 0;
    std::string (*action)(const struct Party&) = nullptr;
    void* brought = nullptr;
    const char* whole = nullptr;  // the instruction, if it needs all lanes of the warp

    bool operator==(const Meeting& other) const {
        return action == other.action && site == other.site && group == other.group &&
               lanes == other.lanes;
    }
};

struct Lane {
    enum State { ready, meeting, waiting, ended };

    Fiber fiber;
    State state = ready;
    struct Warp* warp;
    int lane;
    Index thread;
    Meeting at;                           // of those who meet
    std::function<bool()> over;           // of those who wait for something else: whether it is,
    std::function<std::string()> awaits;  // and what

    Knowledge known;
    bool after_grid = false;  // whether it has waited for the grid before
    States states;

    Moment now() const;
    std::string whereabouts() const {
        if (state == ended) return "have ended";
        if (state == waiting) return "wait for " + awaits();
        if (at.group == Group::block) return "wait at the barrier of " + at.site.text();
        if (at.group == Group::cluster) return "wait at the cluster's barrier of " + at.site.text();
        std::string others = at.group == Group::warp ? lanes_text(at.lanes) : "their warpgroup";
        return "wait for " + others + " at " + at.site.text();
    }
};

struct Warp {
    int number = 0, time = 1;         // in its cluster; of its clock
    int rank = 0, in_block = 0;       // of its block in the cluster; its number there
    Index block = {0, 0, 0};
    uint32_t present = 0, alive = 0;  // lanes that the block has, and that have not ended
    Lane* lanes[32] = {};
    Accesses accesses;  // since it last met
    States states;

    // Its lanes that one which has come waits for.
    uint32_t awaited(const Meeting& by) const {
        return by.group == Group::warp ? by.lanes & alive : by.group == Group::warpgroup ? ~0u : present;
    }
    bool has_come(const Meeting& meeting) const {
        uint32_t awaited = this->awaited(meeting);
        for (int i = 0; i < 32; i++)
            if (awaited >> i & 1)
                if (!lanes[i] || lanes[i]->state != Lane::meeting || !(lanes[i]->at == meeting))
                    return false;
        return true;
    }
};

inline Moment Lane::now() const { return {warp->number, lane, warp->time, &known}; }

// Lanes that have come to one place, with what each has brought, by 32 * warp + lane.
struct Party {
    const Meeting& at;
    Warp* warps;  // the first
    int count;    // of warps

    bool has(int lane) const { return warps[lane / 32].awaited(at) >> lane % 32 & 1; }
    template <class T>
    T& of(int lane) const {
        return *static_cast<T*>(warps[lane / 32].lanes[lane % 32]->at.brought);
    }
    template <class Do>
    void each(Do act) const {
        for (int i = 0; i < 32 * count; i++)
            if (has(i)) act(*warps[i / 32].lanes[i % 32]);
    }
};

}  // namespace lscd::simt
