// A block of threads and its scheduler: lanes run until they must meet others (at a barrier, a shuffle,
// a tensor-core instruction), and what all have come for is done.
#pragma once
#include <cstring>
#include <functional>

#include "lane.h"

namespace lscd::simt {

struct Launch {
    std::function<void()> kernel;  // what a thread does
    int number;
    Index grid, threads;
    int shared_bytes;
    bool early;  // may begin before the grid before it has ended
};

class Block {
    bool watched = false;
    int number = 0, epoch = 1;
    std::vector<Lane> lanes;
    std::vector<Warp> warps;
    Stacks stacks;

  public:
    // Of this worker: the block that it runs, and the lane. A fiber stays with its worker.
    static inline __thread Block* current = nullptr;
    static inline __thread Lane* lane = nullptr;

    const Launch& launch;
    Index index = {0, 0, 0};
    Counter counter;
    Shadow shadow;
    Mbarriers mbarriers;
    std::map<int64_t, Knowledge> counters;  // what those who counted knew
    unsigned char* shared = nullptr;  // known once the kernel makes a Shared of it
    std::string fault;

    explicit Block(const Launch& launch)
        : stacks(size_t(launch.threads.x) * launch.threads.y * launch.threads.z), launch(launch),
          counter(launch.number) {}

    // Runs all threads of block `number` to their ends, or to the first fault.
    void run(int number, bool watch) {
        prepare(number), watched = watch, current = this;
        for (;;) {
            bool moved = false, over = true;
            for (Warp& warp : warps)
                while (fault.empty() && advance(warp)) moved = true;
            if (moved && fault.empty()) continue;  // one may have ended a phase that another waits for
            for (const Lane& one : lanes) over &= one.state == Lane::ended;
            if (over || !fault.empty()) break;
            release_barrier();
        }
        if (fault.empty()) leave();
        for (Warp& warp : warps) count(warp);
        current = nullptr;
    }

    // --- what lanes call ---

    // Ends the launch with a fault of this lane.
    [[noreturn]] void fail(Site site, const std::string& what) {
        accuse(site, ", lane " + std::to_string(lane->lane) + ": " + what);
        lane->fiber.suspend();
        __builtin_unreachable();
    }

    Moment now() const { return moment_of(*lane); }
    Moment moment_of(const Lane& one) const {
        return {epoch, warps[size_t(one.warp)].epoch, one.warp, one.lane, &one.known};
    }

    // Suspends this lane until all `with` it have come to the same place.
    void meet(Site site, uint32_t with, Together action, void* operands) {
        lane->site = site, lane->with = with, lane->action = action, lane->operands = operands;
        lane->state = Lane::waiting;
        lane->fiber.suspend();
    }

    // The same for the four warps of its warpgroup, all of them.
    void meet_warpgroup(Site site, WithWarpgroup action, void* operands) {
        lane->site = site, lane->group_action = action, lane->operands = operands;
        lane->state = Lane::in_warpgroup;
        lane->fiber.suspend();
    }

    void barrier(Site site) {
        lane->accesses.push_back({Op::barrier, site});
        lane->site = site, lane->state = Lane::at_barrier;
        lane->fiber.suspend();
    }

    // Suspends this lane until the phase of that parity is over.
    void wait_for_phase(Site site, int64_t mbarrier, uint32_t parity) {
        lane->site = site, lane->mbarrier = mbarrier, lane->parity = parity;
        lane->state = Lane::at_phase;
        lane->fiber.suspend();
    }

  private:
    void accuse(Site site, const std::string& what) {
        fault = site.text() + ", block " + index.text() + ", warp " + std::to_string(lane->warp) + what;
    }

    void prepare(int block) {
        unsigned n = unsigned(block);
        const Index &grid = launch.grid, &size = launch.threads;
        index = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
        number = block, epoch = 1, shared = nullptr, fault.clear();
        shadow.reset(size_t(launch.shared_bytes), size_t(size.x) * size.y * size.z);
        mbarriers.clear(), counters.clear();
        lanes = std::vector<Lane>(size_t(size.x) * size.y * size.z);
        warps = std::vector<Warp>((lanes.size() + 31) / 32);
        for (size_t w = 0; w < warps.size(); w++) warps[w].number = int(w);
        for (unsigned i = 0; i < lanes.size(); i++) {
            lanes[i].warp = int(i / 32), lanes[i].lane = int(i % 32);
            lanes[i].thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
            lanes[i].fiber.start(stacks.stack(i), stacks.bytes(), live);
            warps[i / 32].lanes[i % 32] = &lanes[i];
        }
    }

    // The life of a lane.
    static void live() {
        current->launch.kernel();
        lane->state = Lane::ended;
        lane->fiber.suspend();
    }

    // Runs the lanes of a warp that can run, then one thing that they have met for. False: none moved.
    bool advance(Warp& warp) {
        bool moved = false;
        for (Lane* one : warp.lanes) {
            if (one && one->state == Lane::at_phase) pass(*one);
            if (!one || one->state != Lane::ready) continue;
            lane = one, moved = true;
            one->fiber.resume();
            if (!fault.empty()) return false;
        }
        for (Lane* one : warp.lanes)
            if (one && one->state == Lane::waiting && warp.met(*one)) return act(warp, *one);
        if (Warp* group = warpgroup_of(warp)) return act_with_warpgroup(group);
        return moved;
    }

    // The first warp of the warpgroup that a warp belongs to, once all its lanes have come to one place.
    Warp* warpgroup_of(const Warp& warp) {
        size_t first = size_t(warp.number) / WARPS_OF_GROUP * WARPS_OF_GROUP;
        if (first + WARPS_OF_GROUP > warps.size()) return nullptr;
        for (size_t w = first; w < first + WARPS_OF_GROUP; w++)
            for (const Lane* one : warps[w].lanes)
                if (!one || !one->meets_warpgroup(*warps[first].lanes[0])) return nullptr;
        return &warps[first];
    }

    bool act_with_warpgroup(Warp* group) {
        void* operands[32 * WARPS_OF_GROUP];
        Lane& first = *group->lanes[0];
        for (int i = 0; i < 32 * WARPS_OF_GROUP; i++) {
            if (i % 32 == 0) count(group[i / 32]);
            operands[i] = group[i / 32].lanes[i % 32]->operands;
        }
        std::string wrong = first.group_action(group, operands, first.site);
        for (int i = 0; i < 32 * WARPS_OF_GROUP; i++)
            group[i / 32].lanes[i % 32]->state = Lane::ready;
        lane = &first;
        if (!wrong.empty()) accuse(first.site, ": " + wrong);
        return wrong.empty();
    }

    // A lane that waits for a phase goes on, if it is over.
    void pass(Lane& one) {
        Mbarrier& barrier = mbarriers.at(one.mbarrier);
        if (!barrier.is_over(one.parity, shared)) return;
        one.known.learn(barrier.passed_on);
        one.known.phases[one.mbarrier] = barrier.phase;
        one.state = Lane::ready;
    }

    // The end of a block: what is under way must not outlive it.
    void leave() {
        for (const Warp& warp : warps)
            if (const Wgmma* one = warp.wgmmas.oldest())
                fault = one->site.text() + ", block " + index.text() + ", warp " +
                        std::to_string(warp.number) + ": ends while a wgmma is under way";
        for (const auto& [at, barrier] : mbarriers)
            if (!barrier.copies.empty())
                fault = barrier.made.text() + ", block " + index.text() +
                        ": ends while a bulk copy that the mbarrier at shared address " +
                        std::to_string(at) + " counts is under way";
    }

    bool act(Warp& warp, Lane& first) {
        uint32_t together = first.with & warp.alive();
        if (together == warp.alive()) count(warp);
        void* operands[32] = {};
        for (int i = 0; i < 32; i++)
            if (together >> i & 1) operands[i] = warp.lanes[i]->operands;
        std::string wrong = first.action(warp, together, operands);
        for (int i = 0; i < 32; i++)
            if (together >> i & 1) warp.lanes[i]->state = Lane::ready;
        lane = &first;
        if (!wrong.empty()) accuse(first.site, ": " + wrong);
        return wrong.empty();
    }

    // All warps wait: at one and the same barrier, or for each other.
    void release_barrier() {
        for (const Lane& one : lanes)
            if (one.state != Lane::at_barrier || !(one.site == lanes[0].site)) return stuck();
        for (Warp& warp : warps) count(warp);
        Knowledge all;
        for (const Lane& one : lanes) all.learn(one.known);
        for (Lane& one : lanes) one.state = Lane::ready, one.known = all;
        epoch++;
    }

    // Says which lanes are where, in the order of warps and lanes.
    void stuck() {
        bool barrier = false, phase = false;
        std::string told;
        for (const Warp& warp : warps)
            for (uint32_t left = warp.present(), same; left; left &= ~same) {
                std::string place = warp.lanes[__builtin_ctz(left)]->whereabouts();
                same = 0;
                for (int i = 0; i < 32; i++)
                    if (left >> i & 1 && warp.lanes[i]->whereabouts() == place) same |= 1u << i;
                told += "; warp " + std::to_string(warp.number) + ", " + lanes_text(same) + " " + place;
                const Lane& one = *warp.lanes[__builtin_ctz(same)];
                barrier |= one.state == Lane::at_barrier, phase |= one.state == Lane::at_phase;
                if (one.state == Lane::at_phase) told += " (" + mbarriers.at(one.mbarrier).lacks() + ")";
            }
        fault = phase ? "deadlock" : barrier ? "divergent barrier" : "divergent warp";
        fault += " in block " + index.text() + told;
    }

    void count(Warp& warp) {
        const std::vector<Access>* accesses[32] = {};
        for (int i = 0; i < 32; i++)
            if (warp.lanes[i]) accesses[i] = &warp.lanes[i]->accesses;
        counter.add(accesses, number, warp.number, watched);
        for (Lane* one : warp.lanes)
            if (one) one->accesses.clear();
    }
};

}  // namespace lscd::simt
