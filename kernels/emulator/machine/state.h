// What instruction sets keep of a lane, a warp or a block, from first use to the block's end. What must
// not be under way at that end, they tell.
#pragma once
#include <map>
#include <memory>
#include <typeindex>

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
    std::map<std::type_index, std::unique_ptr<State>> all;

  public:
    template <class S>
    S& of() {
        std::unique_ptr<State>& one = all[typeid(S)];
        if (!one) one = std::make_unique<S>();
        return static_cast<S&>(*one);
    }
    std::vector<State::Unfinished> unfinished() const {
        std::vector<State::Unfinished> found;
        for (const auto& [kind, one] : all)
            for (auto& left : one->unfinished()) found.push_back(left);
        return found;
    }
};

}  // namespace lscd::simt
