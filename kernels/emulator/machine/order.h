// What happens before what. Every warp has a clock that counts how often its lanes have synchronised,
// instruction sets may have more; a lane knows how far it has seen each.
#pragma once
#include "request.h"

namespace lscd::simt {

// "lanes 0-7, 9"
inline std::string lanes_text(uint32_t mask) {
    std::string text;
    auto has = [&](int lane) { return lane >= 0 && lane < 32 && mask >> lane & 1; };
    for (int lane = 0; lane < 32; lane++) {
        if (has(lane) && !has(lane - 1)) text += (text.empty() ? "" : ", ") + std::to_string(lane);
        if (has(lane) && has(lane - 1) && !has(lane + 1)) text += "-" + std::to_string(lane);
    }
    return (mask & (mask - 1) ? "lanes " : "lane ") + text;
}

// By clock: all that happened before a time is known, and of that time what some lanes did.
class Knowledge {
    struct Seen {
        int time = 0;
        uint32_t lanes = 0;
    };
    std::vector<Seen> clocks;

  public:
    void learn(int clock, int time, uint32_t lanes) {
        if (clocks.size() <= size_t(clock)) clocks.resize(size_t(clock) + 1);
        Seen& seen = clocks[size_t(clock)];
        if (seen.time == time) seen.lanes |= lanes;
        if (seen.time < time) seen = {time, lanes};
    }
    void learn(const Knowledge& other) {
        for (size_t i = 0; i < other.clocks.size(); i++)
            if (Seen seen = other.clocks[i]; seen.time) learn(int(i), seen.time, seen.lanes);
    }
    bool covers(int clock, int time, uint32_t lanes) const {
        if (clock < 0 || clocks.size() <= size_t(clock)) return false;
        Seen seen = clocks[size_t(clock)];
        return seen.time > time || (seen.time == time && !(lanes & ~seen.lanes));
    }
};

// A lane, the time of its warp's clock, and what it knows of others.
struct Moment {
    int warp, lane, time;
    const Knowledge* known;
};

// Lanes of a warp that touched a byte at one time; none, where wgmma did for its warp.
struct Touch {
    int warp = 0, time = 0;  // 0: never
    uint32_t lanes = 0;
    Site site = {nullptr, 0};

    // Whether nothing orders this before what happens now.
    bool races_with(const Moment& now) const {
        if (!time || now.known->covers(warp, time, lanes)) return false;
        return warp != now.warp || (time == now.time && (lanes & ~(1u << now.lane)));
    }
    void add(const Moment& now, Site where) { add(now, where, 1u << now.lane); }
    void add(const Moment& now, Site where, uint32_t more) {
        bool together = warp == now.warp && time == now.time;
        *this = {now.warp, now.time, (together ? lanes : 0) | more, where};
    }
    std::string text() const {
        std::string who = lanes ? lanes_text(lanes) : "wgmma";
        return "warp " + std::to_string(warp) + ", " + who + " at " + site.text();
    }
};

}  // namespace lscd::simt
