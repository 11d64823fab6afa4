// A block of threads and its scheduler: lanes run until they must meet others (at a barrier, a shuffle,
// a tensor-core instruction) or wait; what all have come for is done. The blocks of a cluster are one
// here: it has the warps of all, one block's after another's, and shared memory of a part for each.
#pragma once
#include <cstring>

#include "lane.h"
#include "launch.h"

namespace lscd::simt {

class Block {
    std::vector<Lane> lanes;
    std::vector<Warp> warps;
    std::vector<Stack> stacks;

  public:
    // Of this worker: the block that it runs, and the lane. A fiber stays with its worker.
    static inline __thread Block* current = nullptr;
    static inline __thread Lane* lane = nullptr;

    const Launch& launch;
    Counter counter;
    Shadow shadow;
    States states;
    int clocks = 0;                   // of warps, and of instruction sets
    unsigned char* shared = nullptr;  // known once the kernel makes a Shared of it
    std::string fault;

    explicit Block(const Launch& launch)
        : stacks(launch.threads.count() * size_t(launch.cluster)), launch(launch), counter{launch.number} {}

    // Runs all threads of block `number` - or cluster - to their ends, or to the first fault.
    void run(int number, bool watch) {
        prepare(number), counter.block = number, counter.watch = watch, current = this;
        for (bool moved = true; moved && fault.empty();) {
            moved = false;
            for (Warp& warp : warps)  // one may have done what another waits for
                while (fault.empty() && advance(warp)) moved = true;
            size_t of_block = size_t(launch.warps_of_block());
            for (size_t first = 0; !moved && first < warps.size(); first += of_block)
                moved = meet_all(Group::block, first, of_block);
            if (!moved) moved = meet_all(Group::cluster, 0, warps.size());
        }
        uint32_t left = 0;
        for (const Warp& warp : warps) left |= warp.alive;
        if (fault.empty()) left ? stuck() : leave();
        for (Warp& warp : warps) counter.add(warp.accesses, warp.number);
    }

    // --- what lanes call ---

    // Ends the launch with a fault of this lane.
    [[noreturn]] void fail(Site site, const std::string& what) {
        accuse(site, *lane->warp, ", lane " + std::to_string(lane->lane) + ": " + what);
        lane->fiber.suspend();
        __builtin_unreachable();
    }

    Lane& lane_of(int warp, int lane) { return *warps[size_t(warp)].lanes[lane]; }

    // Whether a lane of the cluster's block of that rank knows what happened at a time of a clock.
    bool knows(int rank, int clock, int time, uint32_t lanes) const {
        for (const Lane& one : this->lanes)
            if (one.warp->rank == rank && one.known.covers(clock, time, lanes)) return true;
        return false;
    }

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
    void accuse(Site site, const Index& block, const std::string& what) {
        fault = site.text() + ", block " + block.text() + what;
    }
    void accuse(Site site, const Warp& warp, const std::string& what) {
        accuse(site, warp.block, ", " + name(warp) + what);
    }
    // By the number that others are told by, too.
    std::string name(const Warp& warp) const {
        return "warp " + std::to_string(warp.number) + (launch.cluster > 1 ? " of the cluster" : "");
    }

    void prepare(int number) {
        unsigned of_block = unsigned(launch.threads.count());
        shared = nullptr, fault.clear(), states = States();
        shadow.reset(launch.shared_bytes, launch.cluster);
        lanes = std::vector<Lane>(of_block * unsigned(launch.cluster));
        warps = std::vector<Warp>(size_t(launch.warps_of_block() * launch.cluster));
        clocks = int(warps.size());
        for (int w = 0; w < clocks; w++) {
            Warp& warp = warps[size_t(w)];
            warp.number = w, warp.rank = w / launch.warps_of_block();
            warp.in_block = w % launch.warps_of_block(), warp.block = launch.index_of(number, warp.rank);
        }
        for (unsigned i = 0; i < lanes.size(); i++) {
            size_t first = i / of_block * size_t(launch.warps_of_block());
            start(i, warps[first + i % of_block / 32], i % of_block);
        }
    }

    // Lane i of all, and thread `number` of its block.
    void start(unsigned i, Warp& warp, unsigned number) {
        const Index& size = launch.threads;
        warp.lanes[number % 32] = &lanes[i];
        warp.present = warp.alive |= 1u << number % 32;
        lanes[i].warp = &warp, lanes[i].lane = int(number % 32);
        lanes[i].thread = {number % size.x, number / size.x % size.y, number / size.x / size.y};
        lanes[i].fiber.start(stacks[i], live);
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
        int in_group = warp.in_block % WARPS_OF_GROUP;
        bool whole = warp.in_block - in_group + WARPS_OF_GROUP <= launch.warps_of_block();
        return meet_all(Group::warp, size_t(warp.number), 1) ||
               (whole && meet_all(Group::warpgroup, size_t(warp.number - in_group), WARPS_OF_GROUP)) ||
               moved;
    }

    // Does what lanes of these warps have met for, once all that they meet have come.
    bool meet_all(Group group, size_t first, size_t count) {
        for (Lane* one : warps[first].lanes) {
            if (!one || one->state != Lane::meeting || one->at.group != group) continue;
            bool all = true;
            for (size_t w = first; all && w < first + count; w++) all = warps[w].has_come(one->at);
            if (all) return act(*one, &warps[first], int(count)), true;
        }
        return false;
    }

    // `one`: of those who have met, whose addresses they use.
    void act(Lane& one, Warp* first, int count) {
        const Meeting& at = one.at;
        lane = &one;
        Party all = {at, first, count};
        for (Warp* warp = first; warp < first + count; warp++)
            if (warp->awaited(at) == warp->alive) counter.add(warp->accesses, warp->number);
        uint32_t together = first->awaited(at);
        std::string wrong = at.whole && ~together
                                ? at.whole + (" needs all 32 lanes, not " + lanes_text(together))
                                : at.action(all);
        all.each([](Lane& one) { one.state = Lane::ready; });
        if (!wrong.empty()) accuse(at.site, *first, ": " + wrong);
    }

    // The end of a block: what is under way must not outlive it.
    void leave() {
        auto tell = [&](const States& of, const Warp* warp) {
            for (const auto& [kind, one] : of.all)
                if (auto [site, left, rank] = one->unfinished(); !left.empty()) {
                    std::string what = ": ends while " + left + " is under way";
                    if (warp) accuse(site, *warp, what);
                    else accuse(site, warps[size_t(rank * launch.warps_of_block())].block, what);
                }
        };
        for (const Warp& warp : warps) tell(warp.states, &warp);
        tell(states, nullptr);
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
                told += "; " + name(warp) + ", " + lanes_text(same) + " " + place;
                waits |= one.state == Lane::waiting;
                barrier |= one.state == Lane::meeting && one.at.group >= Group::block;
            }
        fault = waits ? "deadlock" : barrier ? "divergent barrier" : "divergent warp";
        fault += " in block " + warps[0].block.text() + told;
    }
};

}  // namespace lscd::simt
