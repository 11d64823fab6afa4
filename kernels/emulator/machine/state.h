// What instruction sets keep of a lane, a warp or a block, from first use to the block's end. What must
// not be under way at that end, they tell.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "request.h"

namespace lscd::simt {

struct State {
    struct Unfinished {
        Site site;
        std::string what;
    };
    virtual ~State() = default;
    virtual std::vector<Unfinished> unfinished() const { return {}; }
};

class States {
    std::vector<std::unique_ptr<State>> all;
    static inline size_t kinds = 0;
    template <class S>
    static inline const size_t number = kinds++;

  public:
    template <class S>
    S& of() {
        if (all.size() <= number<S>) all.resize(number<S> + 1);
        if (!all[number<S>]) all[number<S>] = std::make_unique<S>();
        return static_cast<S&>(*all[number<S>]);
    }
    std::vector<State::Unfinished> unfinished() const {
        std::vector<State::Unfinished> found;
        for (const auto& one : all)
            if (one)
                for (auto& left : one->unfinished()) found.push_back(left);
        return found;
    }
};

}  // namespace lscd::simt
