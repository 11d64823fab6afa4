// Flags of global memory, between blocks of a grid (machine/between.h).
#pragma once
#include <thread>

#include "global.h"

namespace lscd {

namespace simt {

// The block that asks for a flag, which is a word of global memory like others.
inline Block& block_at_flag(const char* what, const uint64_t* flag, bool writes, Site site) {
    check_global(what, flag, sizeof *flag, sizeof *flag, writes, site);
    note({writes ? Op::global_store : Op::global_load, site, {}, {int64_t(flag), sizeof *flag}});
    return *Block::current;
}

}  // namespace simt

inline void set_flag(uint64_t* flag, simt::Site site = simt::here()) {
    simt::Block& block = simt::block_at_flag("release", flag, true, site);
    if (*flag == FLAG_IS_SET) block.fail(site, "sets a flag that is set");
    *flag = FLAG_IS_SET;
    auto& stores = block.states.of<simt::Unreleased>();
    simt::machine.between->release(uint64_t(flag), site, simt::Block::lane->now(), stores);
}

// Whoever sets it runs on another core, or has ended.
inline void wait_for_flag(const uint64_t* flag, simt::Site site = simt::here()) {
    simt::Block& block = simt::block_at_flag("acquire", flag, false, site);
    simt::Between& between = *simt::machine.between;
    while (!between.is_set(uint64_t(flag))) {
        bool others_run = between.others_run(block.counter.block);  // asked before the flag is looked at again
        if (!between.is_set(uint64_t(flag)) && !others_run)
            block.fail(site, "waits for a flag that no block before it sets: deadlock");
        std::this_thread::yield();
    }
    simt::Block::lane->states.of<simt::Acquired>().flags.insert(uint64_t(flag));
}

inline void unset_flag(uint64_t* flag, simt::Site site = simt::here()) {
    simt::Block& block = simt::block_at_flag("store", flag, true, site);
    if (!simt::Block::lane->states.of<simt::Acquired>().flags.count(uint64_t(flag)))
        block.fail(site, "takes away a flag that it has not seen set");
    *flag = 0;
    simt::machine.between->unset(uint64_t(flag));
}

}  // namespace lscd
