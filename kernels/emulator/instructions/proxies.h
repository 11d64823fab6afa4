// Fences of the proxies, behind which copies and products that are under way see what lanes stored.
#pragma once
#include "../machine/memory.h"

namespace lscd::simt {

struct Fence {
    Touch made;
    int64_t behind;  // writes of the block
};
struct Fences : State {  // of a lane, in order
    std::vector<Fence> all;
};

// What is wrong with a read or a write of the asynchronous proxy: stores come before it if a fence of their
// thread is behind them, and happened before.
inline std::string unfenced(const Cell& cell, const Moment& now) {
    if (cell.how->by || !cell.written.time) return "";  // a bulk copy; nothing
    const Touch& written = cell.written;
    Lane& writer = Block::current->lane_of(written.warp, __builtin_ctz(written.lanes));
    const std::vector<Fence>& fences = writer.states.of<Fences>().all;
    auto first = std::partition_point(fences.begin(), fences.end(),
                                      [&](const Fence& one) { return one.behind < cell.when; });
    if (first != fences.end() && !first->made.races_with(now)) return "";
    return "written by " + written.text() + " in another proxy, no fence between";
}

}  // namespace lscd::simt
