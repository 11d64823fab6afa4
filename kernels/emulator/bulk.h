// mbarriers and bulk copies as lanes use them. Accesses to an mbarrier are atomic: they race with all
// that is not one.
#pragma once
#include "memory.h"

namespace lscd::simt {

constexpr int MBARRIER_BYTES = 8, BULK_UNIT = 16;

inline std::string at_shared(int64_t at) { return " at shared address " + std::to_string(at); }

inline void make_mbarrier(const void* memory, int arrivals, Site site) {
    Block& block = *Block::current;
    write_shared(Op::mbarrier, memory, MBARRIER_BYTES, site);
    int64_t at = static_cast<const unsigned char*>(memory) - block.shared;
    if (arrivals < 1) block.fail(site, "mbarrier" + at_shared(at) + " of no arrivals");
    Touch maker;
    maker.add(block.now(), site);
    block.mbarriers.insert_or_assign(at, Mbarrier{site, maker, arrivals});
}

inline void fence_mbarriers() {
    Moment now = Block::current->now();
    for (auto& [at, barrier] : Block::current->mbarriers)
        barrier.fenced |= barrier.maker.warp == now.warp && barrier.maker.lanes == 1u << now.lane;
}

// The mbarrier that a lane uses now, and where it is.
inline std::pair<const int64_t, Mbarrier>& mbarrier_at(const void* memory, Site site) {
    Block& block = *Block::current;
    int64_t at = shared_offset("mbarrier", memory, MBARRIER_BYTES, site);
    auto found = block.mbarriers.find(at);
    if (found == block.mbarriers.end()) block.fail(site, "no mbarrier has been made" + at_shared(at));
    Moment now = block.now();
    const Touch& maker = found->second.maker;
    std::string wrong = block.shadow.write(at, MBARRIER_BYTES, now, site, Write::atomic);
    if (maker.races_with(now)) wrong = "a race: written by " + maker.text() + ", no barrier between";
    judge("mbarrier", at, MBARRIER_BYTES, site, wrong);
    return *found;
}

// What this lane has done, it passes on to those who will wait; `bytes` of bulk copies are to come.
inline void arrive(const void* memory, int64_t bytes, Site site) {
    Block& block = *Block::current;
    auto& [at, barrier] = mbarrier_at(memory, site);
    note({Op::mbarrier, site});
    if (barrier.missing == 0)
        block.fail(site, "arrives at the mbarrier" + at_shared(at) + " once more than the " +
                             std::to_string(barrier.arrivals) +
                             " arrivals of a phase, and no wait has shown that the phase is over");
    Moment now = block.now();
    barrier.given.learn(block.lane->known);
    barrier.given.learn(now.warp, {now.warp_epoch, 1u << now.lane});
    barrier.missing--, barrier.bytes += bytes;
    if (barrier.can_end() && barrier.copies.empty()) barrier.end_phase(block.shared);
}

// A counter: who counts later knows what those who counted before had read. (And had written, here; on
// a GPU they do not know that.)
inline void count_in_turn(const void* memory, Site site) {
    change_shared(memory, 4, site);
    Block& block = *Block::current;
    Moment now = block.now();
    Knowledge& given = block.counters[static_cast<const unsigned char*>(memory) - block.shared];
    block.lane->known.learn(given);
    given.learn(block.lane->known);
    given.learn(now.warp, {now.warp_epoch, 1u << now.lane});
}

inline void wait_for_phase(const void* memory, uint32_t parity, Site site) {
    int64_t at = mbarrier_at(memory, site).first;
    note({Op::mbarrier, site});
    Block::current->wait_for_phase(site, at, parity);
}

// cp.async.bulk: the bytes are read now, and land when a lane has waited for the mbarrier's phase.
inline void start_bulk_copy(unsigned char* to, const void* from, uint32_t bytes, const void* memory,
                            Site site) {
    Block& block = *Block::current;
    auto& [at, barrier] = mbarrier_at(memory, site);
    if (!barrier.fenced)
        block.fail(site, "a bulk copy uses the mbarrier" + at_shared(at) + " that was made at " +
                             barrier.made.text() + ": no fence between");
    if (!bytes || bytes % BULK_UNIT)
        block.fail(site, sized("bulk copy", int(bytes)) + ": allowed: multiples of 16");
    int64_t place = shared_offset("bulk copy", to, BULK_UNIT, site);
    if (place + bytes > block.shadow.bytes())
        judge("bulk copy", place, int(bytes), site,
              "out of bounds, the block has " + std::to_string(block.shadow.bytes()) + " bytes");
    judge("bulk copy", place, int(bytes), site,
          block.shadow.write(place, int(bytes), block.now(), site, Write::bulk_copy));
    check_global("bulk copy", from, int(bytes), BULK_UNIT, false, site);
    block.shadow.belongs(place, bytes, at, barrier.phase);
    auto* first = static_cast<const unsigned char*>(from);
    barrier.copies.push_back({place, {first, first + bytes}});
    barrier.bytes -= bytes;
    note({Op::bulk_copy, site, place, int32_t(bytes), int32_t(bytes), uint64_t(from)});
}

}  // namespace lscd::simt
