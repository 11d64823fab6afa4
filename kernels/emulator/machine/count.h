// Counting: accesses of lanes become requests of their warp, and requests sums per source line.
#pragma once
#include <array>
#include <list>
#include <map>

#include "request.h"

namespace lscd::simt {

using Accesses = std::array<std::vector<Access>, 32>;  // of a warp's lanes, each in its order

struct Counter {
    using Place = std::pair<Op, Site>;

    int launch, block = 0;
    bool watch = false;  // keeps requests
    std::map<Place, Counts> sums = {};
    std::vector<Request> watched = {};  // in the order of each warp

    // What each lane of a warp did since the warp last met; forgets it. The n-th access of one lane at
    // a line is taken to be of the same instruction as the n-th of another: so it is, unless lanes skip
    // different turns of a loop. What only later lanes do comes right behind what they did before it.
    void add(Accesses& lanes, int warp) {
        std::list<Request> requests;
        std::map<std::pair<Place, int>, std::list<Request>::iterator> known;
        for (size_t lane = 0; lane < 32; lane++) {
            std::map<Place, int> turns;
            auto next = requests.begin();
            for (const Access& a : lanes[lane]) {
                int turn = turns[{a.op, a.site}]++;
                auto [found, fresh] = known.try_emplace({{a.op, a.site}, turn}, next);
                if (fresh)
                    found->second = requests.insert(
                        next, {{a.op, a.site, launch, {}}, block, warp, a.pending, 0, {}, {}});
                next = found->second;
                next->lanes |= 1u << lane, next->shared[lane] = a.shared, next->global[lane] = a.global;
                ++next;
            }
            lanes[lane].clear();
        }
        for (Request& r : requests) {
            r.line.counts = costs(r);
            sums[{r.line.op, r.line.site}] += r.line.counts;
        }
        if (watch) watched.insert(watched.end(), requests.begin(), requests.end());
    }
};

}  // namespace lscd::simt
