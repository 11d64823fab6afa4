// mbarriers, the bulk copies that they count, and what lanes know of each other through them.
#pragma once
#include <cstring>
#include <map>
#include <vector>

#include "shadow.h"

namespace lscd::simt {

// A bulk copy under way. It lands as late as it can: once a lane has waited for its phase.
struct BulkCopy {
    int64_t to;
    std::vector<unsigned char> bytes;
};

struct Mbarrier {
    Site made;
    Touch maker;                 // who has made it, and when
    int arrivals;                // that a phase takes
    bool fenced = false;         // whether bulk copies may use it
    int missing = arrivals;      // arrivals of this phase
    int64_t bytes = 0;           // that this phase expects, and nothing copies yet
    int phase = 0;               // phases that are over
    std::vector<BulkCopy> copies = {};
    Knowledge given = {};        // by those who have arrived
    Knowledge passed_on = {};    // of it, what they gave in phases that are over: to those who wait

    bool can_end() const { return missing == 0 && bytes == 0; }

    void end_phase(unsigned char* shared) {
        for (const BulkCopy& copy : copies)
            memcpy(shared + copy.to, copy.bytes.data(), copy.bytes.size());
        copies.clear(), missing = arrivals, phase++;
        passed_on.learn(given);
    }

    // Whether a wait for the phase of that parity is over; copies land then.
    bool is_over(uint32_t parity, unsigned char* shared) {
        if ((uint32_t(phase) & 1) == parity && can_end()) end_phase(shared);
        return (uint32_t(phase) & 1) != parity;
    }

    std::string lacks() const {
        std::string text = "phase " + std::to_string(phase) + ": " + std::to_string(arrivals - missing);
        text += " of " + std::to_string(arrivals) + " arrivals";
        return text + ", " + std::to_string(bytes) + " bytes expected that nobody copies";
    }
};

// The mbarriers of a block, by their offset in its shared memory.
using Mbarriers = std::map<int64_t, Mbarrier>;

}  // namespace lscd::simt
