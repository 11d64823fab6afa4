// What instruction sets keep of a lane, a warp or a block, from first use to the block's end. What must
// not be under way at that end, they tell.
#pragma once
#include <map>
#include <memory>
#include <typeindex>

#include "request.h"

namespace lscd::simt {

struct Unfinished {
    Site site;
    std::string what;  // nothing: all is done
    int rank = 0;      // of the block in its cluster that must not end
};

struct State {
    virtual ~State() = default;
    virtual Unfinished unfinished() const { return {}; }
};

struct States {
    std::map<std::type_index, std::unique_ptr<State>> all;

    template <class S>
    S& of() {
        std::unique_ptr<State>& one = all[typeid(S)];
        if (!one) one = std::make_unique<S>();
        return static_cast<S&>(*one);
    }
};

}  // namespace lscd::simt
