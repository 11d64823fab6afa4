// Counting: accesses of lanes become requests of their warp, and requests sums per source line.
#pragma once
#include <list>
#include <map>
#include <tuple>

#include "request.h"

namespace lscd::simt {

// Sums over the requests of one line.
struct Line {
    Op op;
    int32_t launch, line;
    const char* file;
    int64_t requests, lanes, wavefronts, least_wavefronts, sectors, least_sectors;

    void add(const Request& r) {
        requests++, lanes += __builtin_popcount(r.lanes);
        wavefronts += r.costs.wavefronts, least_wavefronts += r.costs.least_wavefronts;
        sectors += r.costs.sectors, least_sectors += r.costs.least_sectors;
    }
};

class Counter {
    using Place = std::tuple<Op, const char*, int>;

    int launch;
    std::map<Place, Line> sums;

    static Place place(const Access& a) { return {a.op, a.site.file, a.site.line}; }

  public:
    std::vector<Request> watched;  // in the order of each warp, if asked for

    explicit Counter(int launch) : launch(launch) {}

    // What each lane of a warp did since the warp last met. The n-th access of one lane at a line is
    // taken to be of the same instruction as the n-th of another: so it is, unless lanes skip
    // different turns of a loop. What only later lanes do comes right behind what they did before it.
    void add(const std::vector<Access>* const (&lanes)[32], int block, int warp, bool watch) {
        std::list<Request> requests;
        std::map<std::pair<Place, int>, std::list<Request>::iterator> known;
        for (int lane = 0; lane < 32; lane++) {
            std::map<Place, int> turns;
            auto next = requests.begin();
            for (size_t i = 0; lanes[lane] && i < lanes[lane]->size(); i++) {
                const Access& a = (*lanes[lane])[i];
                int turn = turns[place(a)]++;
                auto [found, fresh] = known.try_emplace({place(a), turn}, next);
                if (fresh) found->second = requests.insert(next, empty(a, block, warp));
                found->second->add(lane, a);
                next = std::next(found->second);
            }
        }
        for (Request& r : requests) {
            r.costs = costs(r);
            Line zero = {r.op, r.launch, r.line, r.file, 0, 0, 0, 0, 0, 0};
            sums.try_emplace({r.op, r.file, r.line}, zero).first->second.add(r);
        }
        if (watch) watched.insert(watched.end(), requests.begin(), requests.end());
    }

    std::vector<Line> lines() const {
        std::vector<Line> all;
        for (const auto& entry : sums) all.push_back(entry.second);
        return all;
    }

  private:
    Request empty(const Access& a, int block, int warp) const {
        Request r = {};
        r.op = a.op, r.file = a.site.file, r.line = a.site.line;
        r.launch = launch, r.block = block, r.warp = warp;
        return r;
    }
};

}  // namespace lscd::simt
