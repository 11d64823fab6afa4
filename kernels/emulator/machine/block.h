// A block of threads and its scheduler: lanes run until they must meet others (at a barrier, a shuffle,
// a tensor-core instruction) or wait; what all have come for is done.
#pragma once
#include <cstring>

#include "lane.h"

namespace lscd::simt {

constexpr int MOST_THREADS = 1024;  // of a block

struct Launch {
    std::function<void()> kernel;  // what a thread does
    int number;
    Index grid, threads;
    int shared_bytes;
    bool early;  // may begin before the grid before it has ended
};

class Block {
    std::vector<Lane> lanes;
    std::vector<Warp> warps;
    std::vector<Stack> stacks;

  public:
    // Of this worker: the block that it runs, and the lane. A fiber stays with its worker.
    static inline __thread Block* current = nullptr;
    static inline __thread Lane* lane = nullptr;

    const Launch& launch;
    Index index = {0, 0, 0};
    Counter counter;
    Shadow shadow;
    States states;
    int clocks = 0;                   // of warps, and of instruction sets
    unsigned char* shared = nullptr;  // known once the kernel makes a Shared of it
    std::string fault;

    explicit Block(const Launch& launch)
        : stacks(launch.threads.count()), launch(launch), counter{launch.number} {}

    // Runs all threads of block `number` to their ends, or to the first fault.
    void run(int number, bool watch) {
        prepare(number), counter.block = number, counter.watch = watch, current = this;
        for (bool moved = true; moved && fault.empty();) {
            moved = false;
            for (Warp& warp : warps)  // one may have done what another waits for
                while (fault.empty() && advance(warp)) moved = true;
            if (!moved) moved = meet_all(Group::block, 0, warps.size());
        }
        uint32_t left = 0;
        for (const Warp& warp : warps) left |= warp.alive;
        if (fault.empty()) left ? stuck() : leave();
        for (Warp& warp : warps) counter.add(warp.accesses, warp.number);
    }

    // --- what lanes call ---

    // Ends the launch with a fault of this lane.
    [[noreturn]] void fail(Site site, const std::string& what) {
        accuse(site, lane->warp->number, ", lane " + std::to_string(lane->lane) + ": " + what);
        lane->fiber.suspend();
        __builtin_unreachable();
    }

    Lane& lane_of(int warp, int lane) { return *warps[size_t(warp)].lanes[lane]; }

    // Suspends this lane until all that it meets have come to the same place.
    void meet(const Meeting& meeting) {
        lane->at = meeting, lane->state = Lane::meeting;
        lane->fiber.suspend();
    }
    // The same until something is over.
    void wait(std::function<bool()> over, std::function<std::string()> awaits) {
        lane->over = std::move(over), lane->awaits = std::move(awaits), lane->state = Lane::waiting;
        lane->fiber.suspend();
    }

  private:
    void accuse(Site site, int warp, const std::string& what) {
        fault = site.text() + ", block " + index.text();
        fault += (warp < 0 ? "" : ", warp " + std::to_string(warp)) + what;
    }

    void prepare(int number) {
        unsigned n = unsigned(number);
        const Index &grid = launch.grid, &size = launch.threads;
        index = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
        shared = nullptr, fault.clear(), states = States();
        shadow.reset(size_t(launch.shared_bytes));
        lanes = std::vector<Lane>(size.count());
        warps = std::vector<Warp>((lanes.size() + 31) / 32);
        clocks = int(warps.size());
        for (unsigned i = 0; i < lanes.size(); i++) {
            Warp& warp = warps[i / 32];
            warp.number = int(i / 32), warp.lanes[i % 32] = &lanes[i];
            warp.present = warp.alive |= 1u << i % 32;
            lanes[i].warp = &warp, lanes[i].lane = int(i % 32);
            lanes[i].thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
            lanes[i].fiber.start(stacks[i], live);
        }
    }

    // The life of a lane.
    static void live() {
        current->launch.kernel();
        lane->state = Lane::ended, lane->warp->alive &= ~(1u << lane->lane);
        lane->fiber.suspend();
    }

    // Runs the lanes of a warp that can run, then one thing that they have met for. False: none moved.
    bool advance(Warp& warp) {
        bool moved = false;
        for (Lane* one : warp.lanes) {
            if (one && one->state == Lane::waiting && one->over()) one->state = Lane::ready;
            if (!one || one->state != Lane::ready) continue;
            lane = one, moved = true;
            one->fiber.resume();
            if (!fault.empty()) return true;
        }
        size_t of_group = size_t(warp.number) / WARPS_OF_GROUP * WARPS_OF_GROUP;
        return meet_all(Group::warp, size_t(warp.number), 1) ||
               meet_all(Group::warpgroup, of_group, WARPS_OF_GROUP) || moved;
    }

    // Does what lanes of these warps have met for, once all that they meet have come.
    bool meet_all(Group group, size_t first, size_t count) {
        if (first + count > warps.size()) return false;
        for (Lane* one : warps[first].lanes) {
            if (!one || one->state != Lane::meeting || one->at.group != group) continue;
            bool all = true;
            for (size_t w = first; all && w < first + count; w++) all = warps[w].has_come(one->at);
            if (all) return act(one->at, &warps[first], int(count)), true;
        }
        return false;
    }

    void act(const Meeting& at, Warp* first, int count) {
        Party all = {at, first, count};
        for (Warp* warp = first; warp < first + count; warp++)
            if (warp->awaited(at) == warp->alive) counter.add(warp->accesses, warp->number);
        uint32_t together = first->awaited(at);
        std::string wrong = at.whole && ~together
                                ? at.whole + (" needs all 32 lanes, not " + lanes_text(together))
                                : at.action(all);
        all.each([](Lane& one) { one.state = Lane::ready; });
        if (!wrong.empty()) accuse(at.site, first->number, ": " + wrong);
    }

    // The end of a block: what is under way must not outlive it.
    void leave() {
        auto tell = [&](const States& of, int warp) {
            for (const auto& [kind, one] : of.all)
                if (auto [site, left] = one->unfinished(); !left.empty())
                    accuse(site, warp, ": ends while " + left + " is under way");
        };
        for (const Warp& warp : warps) tell(warp.states, warp.number);
        tell(states, -1);
    }

    // No lane can go on: says which are where, in the order of warps and lanes.
    void stuck() {
        bool barrier = false, waits = false;
        std::string told;
        for (const Warp& warp : warps)
            for (uint32_t left = warp.present, same; left; left &= ~same) {
                const Lane& one = *warp.lanes[__builtin_ctz(left)];
                std::string place = one.whereabouts();
                same = 0;
                for (int i = 0; i < 32; i++)
                    if (left >> i & 1 && warp.lanes[i]->whereabouts() == place) same |= 1u << i;
                told += "; warp " + std::to_string(warp.number) + ", " + lanes_text(same) + " " + place;
                waits |= one.state == Lane::waiting;
                barrier |= one.state == Lane::meeting && one.at.group == Group::block;
            }
        fault = waits ? "deadlock" : barrier ? "divergent barrier" : "divergent warp";
        fault += " in block " + index.text() + told;
    }
};

}  // namespace lscd::simt
