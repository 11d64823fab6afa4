// A block of threads: lanes are fibers that run until they must meet others (a barrier, a shuffle, a
// tensor-core instruction), warps are what meets, and a scheduler takes turns.
#pragma once
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

#include "../common/problem.cuh"
#include "fiber.h"
#include "shadow.h"

namespace lscd::simt {

struct Index {
    unsigned x, y, z;
};

// What several lanes do together, once all have come: operands[lane] is what each brought.
using Together = void (*)(struct Block& block, struct Warp& warp, uint32_t lanes, void** operands);

struct Copy {  // a cp.async under way
    int64_t to;
    int32_t bytes;
    Site site;
    unsigned char data[16];
};

struct Lane {
    enum State { ready, waiting, at_barrier, ended };

    Fiber fiber;
    State state = ready;
    int warp, lane;
    Index thread;
    // Where it waits, for whom, to do what.
    Site site = {nullptr, 0};
    uint32_t with = 0;
    Together action = nullptr;
    void* operands = nullptr;

    std::vector<Access> accesses;  // since its warp last met
    std::vector<Copy> copies;      // not yet committed
    std::deque<std::vector<Copy>> groups;
};

struct Warp {
    int number, epoch = 1;
    Lane* lanes[32] = {};

    uint32_t in_state(Lane::State state) const {
        uint32_t mask = 0;
        for (int i = 0; i < 32; i++) mask |= uint32_t(lanes[i] && lanes[i]->state == state) << i;
        return mask;
    }
    uint32_t alive() const { return in_state(Lane::ready) | in_state(Lane::waiting) | in_state(Lane::at_barrier); }
};

// Sums over the requests of one line; what ncu calls by the same names.
struct Line {
    Op op;
    int32_t launch, line;
    const char* file;
    int64_t requests, lanes, wavefronts, least_wavefronts, sectors, least_sectors;
};

// Every kernel of kernels/ takes one Problem.
struct Launch {
    void (*kernel)(Problem);
    Problem problem;
    int number;
    Index grid, threads;
    int shared_bytes;
};

inline std::string mask_text(uint32_t lanes) {
    char text[16];
    snprintf(text, sizeof text, "0x%08x", lanes);
    return text;
}

struct Block {
    static inline __thread Block* current = nullptr;
    static inline __thread Lane* lane = nullptr;

    const Launch& launch;
    Index index = {0, 0, 0};
    int number = 0, epoch = 1;
    bool watched = false;
    std::string fault;
    unsigned char* shared = nullptr;  // known once a kernel makes a Shared of it
    Shadow shadow;
    std::vector<Lane> lanes;
    std::vector<Warp> warps;
    Stacks stacks;
    std::map<std::tuple<Op, const char*, int>, Line> lines;
    std::vector<Request> requests;  // of a watched block

    explicit Block(const Launch& launch)
        : launch(launch), stacks(size_t(launch.threads.x) * launch.threads.y * launch.threads.z) {}

    // --- what lanes call ---

    // Ends the launch with a fault of this lane.
    [[noreturn]] void fail(Site site, const std::string& what) {
        accuse(site, ", lane " + std::to_string(lane->lane) + ": " + what);
        lane->fiber.suspend();
        __builtin_unreachable();
    }

    // The same, for what a warp does together: said by the scheduler, which goes on to stop.
    void accuse(Site site, const std::string& what) {
        fault = site.text() + ", " + where() + ", warp " + std::to_string(lane->warp) + what;
    }

    Moment now() const {
        return {epoch, warps[size_t(lane->warp)].epoch, lane->warp, lane->lane};
    }

    void note(const Access& access) { lane->accesses.push_back(access); }

    // Suspends this lane until all `with` it have come to the same place.
    void meet(Site site, uint32_t with, Together action, void* operands) {
        lane->site = site, lane->with = with, lane->action = action, lane->operands = operands;
        lane->state = Lane::waiting;
        lane->fiber.suspend();
    }

    void barrier(Site site) {
        note({Op::barrier, site});
        lane->site = site, lane->state = Lane::at_barrier;
        lane->fiber.suspend();
    }

    // --- scheduling ---

    // Runs all threads of block `number` to their ends, or to the first fault.
    void run(int number) {
        prepare(number);
        current = this;
        for (;;) {
            for (Warp& warp : warps)
                while (fault.empty() && advance(warp)) continue;
            if (!fault.empty() || all_in(Lane::ended)) break;
            release_barrier();
        }
        if (fault.empty())
            for (Warp& warp : warps) flush(warp);
        current = nullptr;
    }

  private:
    std::string where() const {
        return "block (" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
               std::to_string(index.z) + ")";
    }

    void prepare(int block) {
        unsigned linear = unsigned(block);
        index = {linear % launch.grid.x, linear / launch.grid.x % launch.grid.y,
                 linear / launch.grid.x / launch.grid.y};
        number = block, epoch = 1, shared = nullptr, fault.clear();
        shadow.reset(size_t(launch.shared_bytes));
        const Index& size = launch.threads;
        lanes = std::vector<Lane>(size_t(size.x) * size.y * size.z);
        warps = std::vector<Warp>((lanes.size() + 31) / 32);
        for (size_t i = 0; i < lanes.size(); i++) {
            unsigned t = unsigned(i);
            lanes[i].warp = int(i / 32), lanes[i].lane = int(i % 32);
            lanes[i].thread = {t % size.x, t / size.x % size.y, t / size.x / size.y};
            lanes[i].fiber.start(stacks.stack(i), stacks.bytes(), [] {
                Block* block = current;  // a fiber stays with its worker
                block->launch.kernel(block->launch.problem);
                lane->state = Lane::ended;
                lane->fiber.suspend();
            });
            warps[i / 32].lanes[i % 32] = &lanes[i];
        }
        for (size_t w = 0; w < warps.size(); w++) warps[w].number = int(w);
    }

    bool all_in(Lane::State state) const {
        for (const Lane& one : lanes)
            if (one.state != state) return false;
        return true;
    }

    // Runs the lanes of a warp that can run, then whatever they have met for. False: nothing moved.
    bool advance(Warp& warp) {
        bool moved = false;
        for (Lane* one : warp.lanes) {
            if (!one || one->state != Lane::ready) continue;
            lane = one, moved = true;
            one->fiber.resume();
            if (!fault.empty()) return false;
        }
        for (Lane* one : warp.lanes)
            if (one && one->state == Lane::waiting && met(warp, *one)) {
                act(warp, *one);
                return fault.empty();
            }
        return moved;
    }

    bool met(const Warp& warp, const Lane& first) const {
        for (int i = 0; i < 32; i++) {
            const Lane* one = warp.lanes[i];
            if (!(first.with >> i & 1) || !one || one->state == Lane::ended) continue;
            bool same = one->state == Lane::waiting && one->action == first.action &&
                        one->site == first.site && one->with == first.with;
            if (!same) return false;
        }
        return true;
    }

    void act(Warp& warp, const Lane& first) {
        uint32_t together = first.with & warp.alive();
        void* operands[32] = {};
        for (int i = 0; i < 32; i++)
            if (together >> i & 1) operands[i] = warp.lanes[i]->operands;
        if (together == warp.alive()) flush(warp);
        lane = warp.lanes[first.lane];
        first.action(*this, warp, together, operands);
        for (int i = 0; i < 32; i++)
            if (together >> i & 1) warp.lanes[i]->state = Lane::ready;
    }

    // All warps wait: at one and the same barrier, or for each other.
    void release_barrier() {
        for (const Lane& one : lanes)
            if (one.state != Lane::at_barrier || !(one.site == lanes[0].site)) return stuck();
        for (Warp& warp : warps) flush(warp);
        for (Lane& one : lanes) one.state = Lane::ready;
        epoch++;
    }

    void stuck() {
        bool barrier = false;
        std::vector<std::string> told;
        for (const Warp& warp : warps) {
            std::map<std::string, uint32_t> places;
            for (const Lane* one : warp.lanes) {
                if (!one) continue;
                barrier |= one->state == Lane::at_barrier;
                std::string place = one->state == Lane::ended ? "ended"
                                    : one->state == Lane::at_barrier
                                        ? "wait at the barrier of " + one->site.text()
                                        : "wait for lanes " + mask_text(one->with) + " at " + one->site.text();
                places[place] |= 1u << one->lane;
            }
            for (auto& [place, mask] : places)
                told.push_back("warp " + std::to_string(warp.number) + ", lanes " + mask_text(mask) + " " + place);
        }
        fault = std::string(barrier ? "divergent barrier" : "divergent warp") + ", " + where() + ": ";
        for (size_t i = 0; i < told.size(); i++) fault += (i ? "; " : "") + told[i];
    }

    // --- counting ---

    // Matches what the lanes of a warp did since they last met: n-th access of a line with n-th.
    void flush(Warp& warp) {
        std::map<std::tuple<Op, const char*, int, int>, size_t> slots;
        std::vector<Request> made;
        for (Lane* one : warp.lanes) {
            if (!one) continue;
            std::map<std::tuple<Op, const char*, int>, int> seen;
            for (const Access& a : one->accesses) {
                int nth = seen[{a.op, a.site.file, a.site.line}]++;
                auto [slot, fresh] = slots.try_emplace({a.op, a.site.file, a.site.line, nth}, made.size());
                if (fresh) made.push_back({a.op, launch.number, number, warp.number, a.site.line, 0, a.site.file, {}, {}, {}, {}, 0, 0, 0, 0});
                Request& r = made[slot->second];
                r.lanes |= 1u << one->lane;
                r.shared[one->lane] = int32_t(a.shared), r.shared_bytes[one->lane] = a.shared_bytes;
                r.global[one->lane] = a.global, r.global_bytes[one->lane] = a.global_bytes;
            }
            one->accesses.clear();
        }
        for (Request& r : made) count(r);
        if (watched) requests.insert(requests.end(), made.begin(), made.end());
    }

    void count(Request& r) {
        auto [entry, fresh] = lines.try_emplace({r.op, r.file, r.line});
        Line& line = entry->second;
        if (fresh) line = {r.op, r.launch, r.line, r.file, 0, 0, 0, 0, 0, 0};
        r.wavefronts = wavefronts(r), r.least_wavefronts = least_wavefronts(r);
        std::tie(r.sectors, r.least_sectors) = sectors(r);
        line.requests++, line.lanes += __builtin_popcount(r.lanes);
        line.wavefronts += r.wavefronts, line.least_wavefronts += r.least_wavefronts;
        line.sectors += r.sectors, line.least_sectors += r.least_sectors;
    }
};

}  // namespace lscd::simt
