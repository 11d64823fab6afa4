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

    std::string text() const {
        return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    }
};

// Lanes that have come to one place, and what each has brought, by 32 * warp + lane.
struct Party {
    Site site;
    struct Warp* warps;  // the first
    uint32_t lanes;      // of one warp
    void* const* brought;

    template <class T>
    T& of(int lane) const {
        return *static_cast<T*>(brought[lane]);
    }
    bool has(int lane) const { return lanes >> lane & 1; }
};

enum class Group { warp, warpgroup, block };
constexpr int WARPS_OF_GROUP = 4;

// Where a lane waits for others of its group - of its warp, for some - and what they do once all have
// come; it returns what is wrong, or nothing.
struct Meeting {
    Site site = {nullptr, 0};
    Group group = Group::warp;
    uint32_t lanes = 0;
    std::string (*action)(const Party&) = nullptr;
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
    int warp, lane;
    Index thread;
    Meeting at;                           // of those who meet
    std::function<bool()> over;           // of those who wait for something else: whether it is,
    std::function<std::string()> awaits;  // and what

    Knowledge known;
    bool after_grid = false;  // whether it has waited for the grid before
    States states;

    bool meets(const Lane& other) const {
        return state == meeting && other.state == meeting && at == other.at;
    }
    std::string whereabouts() const {
        if (state == ended) return "have ended";
        if (state == waiting) return "wait for " + awaits();
        if (at.group == Group::block) return "wait at the barrier of " + at.site.text();
        std::string others = at.group == Group::warp ? lanes_text(at.lanes) : "their warpgroup";
        return "wait for " + others + " at " + at.site.text();
    }
};

struct Warp {
    int number = 0, time = 1;  // of its clock
    uint32_t present = 0;      // lanes that the block has
    Lane* lanes[32] = {};
    Accesses accesses;  // since it last met
    States states;

    uint32_t alive() const {
        uint32_t mask = 0;
        for (int i = 0; i < 32; i++)
            if (lanes[i] && lanes[i]->state != Lane::ended) mask |= 1u << i;
        return mask;
    }
    // Its lanes that one which has come waits for: of its own warp those that have not ended.
    uint32_t awaited(const Meeting& by) const {
        return by.group == Group::warp ? by.lanes & alive() : by.group == Group::block ? present : ~0u;
    }
    bool has_come(const Lane& first) const {
        uint32_t awaited = this->awaited(first.at);
        for (int i = 0; i < 32; i++)
            if (awaited >> i & 1 && !(lanes[i] && lanes[i]->meets(first))) return false;
        return true;
    }
};

}  // namespace lscd::simt
