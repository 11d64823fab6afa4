// mbarriers: they count arrivals, and bulk copies (bulk_copy.h). Accesses to an mbarrier are atomic: they
// race with all that is not one. What a lane has done before it arrives, it passes on to those who wait.
#pragma once
#include <cstdlib>
#include <list>
#include <map>

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
    std::map<const Lane*, int> asked = {};  // how often each lane has asked without waiting
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
                return {one.made, "a bulk copy that the mbarrier" + at_shared(at) + " counts", int(at / PART)};
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

// Every second time that a lane asks it is told, if it is: kernels must be right with either answer.
inline bool mbarrier_is_over(Address address, uint32_t parity, simt::Site site = simt::here()) {
    simt::Mbarrier& barrier = simt::mbarrier_at(address, site);
    simt::note({simt::Op::mbarrier, site});
    bool hides = barrier.asked[simt::Block::lane]++ % 2 == 0;
    if (hides || !barrier.is_over(parity)) return false;
    simt::Block::lane->known.learn(barrier.passed_on);
    return true;
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
