// mbarriers and the bulk copies that they count. Accesses to an mbarrier are atomic: they race with all
// that is not one. What a lane has done before it arrives, it passes on to those who wait.
#pragma once
#include <cstdlib>
#include <list>
#include <map>
#include <tuple>

#include "shared.h"

namespace lscd::simt {

constexpr int MBARRIER_BYTES = 8, BULK_UNIT = 16;

// A bulk copy under way. The bytes are read at once; they land as late as they can: once a lane has
// waited for their phase.
struct BulkCopy {
    int64_t to;
    std::vector<unsigned char> bytes;
};

struct Mbarrier {
    int64_t at;
    Site made;
    Touch maker;                 // who has made it, and when
    int arrivals;                // that a phase takes
    int clock;                   // shows phases that are over, and one
    bool fenced = false;         // whether bulk copies may use it
    int missing = arrivals;      // arrivals of this phase
    int64_t bytes = 0;           // that this phase expects, and nothing copies yet; < 0: copied too early
    int phase = 0;               // phases that are over
    std::vector<BulkCopy> copies = {};
    Knowledge given = {};        // by those who have arrived
    Knowledge passed_on = {};    // of it, what they gave in phases that are over: to those who wait

    bool can_end() const { return missing == 0 && bytes == 0; }

    void end_phase() {
        for (const BulkCopy& copy : copies)
            memcpy(Block::current->shared + copy.to, copy.bytes.data(), copy.bytes.size());
        copies.clear(), missing = arrivals, phase++;
        passed_on.learn(given), passed_on.learn(clock, phase + 1, 0);
    }

    // Whether a wait for the phase of that parity is over; copies land then.
    bool is_over(uint32_t parity) {
        if ((uint32_t(phase) & 1) == parity && can_end()) end_phase();
        return (uint32_t(phase) & 1) != parity;
    }

    std::string lacks() const {
        std::string text = "phase " + std::to_string(phase) + ": " + std::to_string(arrivals - missing);
        text += " of " + std::to_string(arrivals) + " arrivals";
        text += ", " + std::to_string(std::abs(bytes)) + " bytes ";
        return text + (bytes < 0 ? "copied that nobody expects" : "expected that nobody copies");
    }
};

struct Mbarriers : State {  // of a block
    std::map<int64_t, Mbarrier> made;  // by offset in its shared memory
    std::list<Writing> bulk_copies;

    Unfinished unfinished() const override {
        for (const auto& [at, one] : made)
            if (!one.copies.empty())
                return {one.made, "a bulk copy that the mbarrier" + at_shared(at) + " counts"};
        return {};
    }
};

inline Mbarriers& mbarriers() { return Block::current->states.of<Mbarriers>(); }

// The mbarrier that a lane uses now.
inline Mbarrier& mbarrier_at(uint32_t address, Site site) {
    void* memory = shared_memory(address);
    int64_t at = shared_offset("mbarrier", memory, MBARRIER_BYTES, site);
    auto found = mbarriers().made.find(at);
    if (found == mbarriers().made.end())
        Block::current->fail(site, "no mbarrier has been made" + at_shared(at));
    const Touch& maker = found->second.maker;
    if (maker.races_with(Block::lane->now()))
        judge("mbarrier", at, MBARRIER_BYTES, site,
              "a race: written by " + maker.text() + ", no barrier between");
    begin_write("mbarrier", memory, MBARRIER_BYTES, site, ATOMIC);
    return found->second;
}

// `given`: also what this lane has done now.
inline void give(Knowledge& given) {
    Moment now = Block::lane->now();
    given.learn(*now.known);
    given.learn(now.warp, now.time, 1u << now.lane);
}

// Arrives; `bytes` of bulk copies are to come.
inline void arrive(uint32_t address, int64_t bytes, Site site) {
    Mbarrier& barrier = mbarrier_at(address, site);
    note({Op::mbarrier, site});
    if (barrier.missing == 0)
        Block::current->fail(site, "arrives at the mbarrier" + at_shared(barrier.at) +
                                       " once more than the " + std::to_string(barrier.arrivals) +
                                       " arrivals of a phase, and no wait has shown that the phase is "
                                       "over");
    give(barrier.given);
    barrier.missing--, barrier.bytes += bytes;
    if (barrier.can_end() && barrier.copies.empty()) barrier.end_phase();
}

// A counter: who counts later knows what those who counted before had read. (And had written, here; on
// a GPU they do not know that.)
struct Counters : State {  // of a block
    std::map<int64_t, Knowledge> given;  // by offset in its shared memory
};

}  // namespace lscd::simt

namespace lscd {

inline void mbarrier_init(Address address, int arrivals, simt::Site site = simt::here()) {
    simt::Block& block = *simt::Block::current;
    auto* memory = simt::shared_memory(address);
    write_shared(simt::Op::mbarrier, "mbarrier", memory, simt::MBARRIER_BYTES, site);
    int64_t at = memory - block.shared;
    if (arrivals < 1) block.fail(site, "mbarrier" + simt::at_shared(at) + " of no arrivals");
    simt::Touch maker;
    maker.add(simt::Block::lane->now(), site);
    simt::Mbarrier made = {at, site, maker, arrivals, block.clocks++};
    simt::mbarriers().made.insert_or_assign(at, made);
}

inline void mbarrier_init_fence() {
    simt::Moment now = simt::Block::lane->now();
    for (auto& [at, one] : simt::mbarriers().made)
        one.fenced |= one.maker.warp == now.warp && one.maker.lanes == 1u << now.lane;
}

inline void mbarrier_arrive(Address barrier, simt::Site site = simt::here()) {
    simt::arrive(barrier, 0, site);
}
inline void mbarrier_arrive_expect(Address barrier, uint32_t bytes, simt::Site site = simt::here()) {
    simt::arrive(barrier, bytes, site);
}

inline void mbarrier_wait(Address address, uint32_t parity, simt::Site site = simt::here()) {
    simt::Mbarrier* barrier = &simt::mbarrier_at(address, site);
    simt::note({simt::Op::mbarrier, site});
    simt::Block::current->wait(
        [barrier, parity] { return barrier->is_over(parity); },
        [barrier, site] {
            return "the mbarrier" + simt::at_shared(barrier->at) + " at " + site.text() + " (" +
                   barrier->lacks() + ")";
        });
    simt::Block::lane->known.learn(barrier->passed_on);
}

inline void bulk_copy(Address to, const void* from, uint32_t bytes, Address address,
                      uint64_t /*policy*/, simt::Site site = simt::here()) {
    simt::Block& block = *simt::Block::current;
    simt::Mbarrier& barrier = simt::mbarrier_at(address, site);
    if (!barrier.fenced)
        block.fail(site, "a bulk copy uses the mbarrier" + simt::at_shared(barrier.at) +
                             " that was made at " + barrier.made.text() + ": no fence between");
    if (!bytes || bytes % simt::BULK_UNIT)
        block.fail(site, simt::sized("bulk copy", int(bytes)) + ": allowed: multiples of 16");
    simt::mbarriers().bulk_copies.push_back({"a bulk copy", barrier.clock, barrier.phase + 1});
    int64_t at = begin_write("bulk copy", simt::shared_memory(to), int(bytes), site,
                             simt::mbarriers().bulk_copies.back(), simt::BULK_UNIT);
    check_global("bulk copy", from, int(bytes), simt::BULK_UNIT, false, site);
    auto* first = static_cast<const unsigned char*>(from);
    barrier.copies.push_back({at, {first, first + bytes}});
    barrier.bytes -= bytes;
    simt::note({simt::Op::bulk_copy, site, {at, bytes}, {int64_t(from), bytes}});
}

inline void lane_bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                           uint64_t policy, simt::Site site = simt::here()) {
    mbarrier_arrive_expect(barrier, bytes, site);
    bulk_copy(to, from, bytes, barrier, policy, site);
}
inline void warp_bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                           uint64_t policy, simt::Site site = simt::here()) {
    using Asked = std::tuple<Address, const void*, uint32_t, Address>;  // any lane may be elected
    Asked mine = {to, from, bytes, barrier};
    simt::meet(site, ~0u, &mine, [](const simt::Party& all) {
        for (int i = 1; i < 32; i++)
            if (all.of<Asked>(i) != all.of<Asked>(0))
                return "lane " + std::to_string(i) + " asks for another copy than lane 0";
        return std::string();
    });
    if (simt::Block::lane->lane == 0) lane_bulk_copy(to, from, bytes, barrier, policy, site);
}

inline uint32_t count_shared(bool counts, Address address, uint32_t last,
                             simt::Site site = simt::here()) {
    if (!counts) return 0;
    auto* counter = simt::shared_at<uint32_t>(address);
    int64_t at = change_shared(counter, sizeof *counter, site);
    simt::Knowledge& given = simt::Block::current->states.of<simt::Counters>().given[at];
    simt::Block::lane->known.learn(given);
    simt::give(given);
    uint32_t before = *counter;
    *counter = before < last ? before + 1 : 0;
    return before;
}

}  // namespace lscd
