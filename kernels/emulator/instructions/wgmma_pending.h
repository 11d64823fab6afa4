// Products of warpgroups under way: what they read in shared memory, which registers and sums are
// theirs until their warp has waited.
#pragma once
#include <deque>
#include <map>

#include "proxies.h"
#include "wgmma_descriptor.h"

namespace lscd::simt {

// A wgmma under way, of one warp: the bytes that it reads, in units; the registers, with what was in
// them; where the sums of its first lane are.
struct Wgmma {
    Site site;
    std::vector<int64_t> units;
    std::vector<std::pair<const uint32_t*, uint32_t>> registers;
    float* sums;
};

// Registers that wgmma sums in: where they are in each lane, and what will be in them.
struct Sums {
    int under_way = 0;
    std::vector<float*> lanes = {};
    std::vector<float> values = {};  // [lane][number]
};

struct Wgmmas : State {  // of a warp
    std::vector<Wgmma> open;  // in no group yet
    std::deque<std::vector<Wgmma>> groups;
    std::map<float*, Sums> sums;  // by the first lane's
    bool fenced = false;          // since the group before

    // The one that was started first.
    Unfinished unfinished() const override {
        for (const auto& group : groups)
            if (!group.empty()) return {group[0].site, "a wgmma"};
        if (!open.empty()) return {open[0].site, "a wgmma"};
        return {};
    }
};

inline Wgmmas& wgmmas(Warp& warp) { return warp.states.of<Wgmmas>(); }

// --- reads ---

// A warp's last lane stands for it: where only one lane has waited for what lies there, that is the
// first.
inline Moment now_of(const Warp& warp) { return warp.lanes[31]->now(); }

// From now on a warp reads these units. What is wrong with that, or nothing.
inline std::string begin_reads(const Warp& warp, const std::vector<int64_t>& units, Site site) {
    Moment now = now_of(warp);
    for (int64_t unit : units)
        for (int64_t at = unit; at < unit + UNIT; at++) {
            Cell& cell = Block::current->shadow[at];
            std::string wrong = cell.unreadable(now);
            if (wrong.empty()) wrong = unfenced(cell, now);
            if (!wrong.empty()) return "wgmma of 16 bytes" + at_shared(unit) + ": " + wrong;
            cell.reading++, cell.reader = {warp.number, now.time, 0, site};
        }
    return "";
}

// It has been waited for: it counts as a read made now.
inline void end_reads(const Warp& warp, const Wgmma& one) {
    Moment now = now_of(warp);
    for (int64_t unit : one.units)
        for (int64_t at = unit; at < unit + UNIT; at++) {
            Cell& cell = Block::current->shadow[at];
            cell.reading--, cell.note_read(now, one.site, 0);
        }
}

// --- sums ---

// The sums of a warp that begin at these registers of its lanes; nobody can know them from now on.
inline Sums& begin_sums(Warp& warp, const std::vector<float*>& lanes, size_t count) {
    auto [found, fresh] = wgmmas(warp).sums.try_emplace(lanes[0]);
    Sums& sums = found->second;
    sums.under_way++;
    if (!fresh) return sums;
    sums.lanes = lanes;
    for (float* d : lanes) {
        sums.values.insert(sums.values.end(), d, d + count);
        std::fill_n(d, count, not_yet());
    }
    return sums;
}

// What was read is no longer; sums that no other wgmma adds to are in their registers.
inline std::string end_wgmma(Warp& warp, const Wgmma& one) {
    for (auto [at, value] : one.registers)
        if (*at != value)
            return "a register of the wgmma at " + one.site.text() + " was written: no wait between";
    end_reads(warp, one);
    auto found = wgmmas(warp).sums.find(one.sums);
    Sums& sums = found->second;
    if (--sums.under_way) return "";
    size_t count = sums.values.size() / 32;
    for (size_t i = 0; i < sums.values.size(); i++) {
        float& d = sums.lanes[i / count][i % count];
        if (!is_not_yet(d))
            return "a sum of the wgmma at " + one.site.text() + " was written: no wait between";
        d = sums.values[i];
    }
    wgmmas(warp).sums.erase(found);
    return "";
}

}  // namespace lscd::simt
