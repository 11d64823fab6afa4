// The machine: runs launches, block by block (or cluster by cluster) on every core, with the arrays that
// it was told of as its global memory, and keeps what was counted.
//
//   launch.h                   grids of blocks, and of clusters
//   fiber.h, lane.h, block.h   lanes run until they meet or wait
//   state.h                    what instruction sets keep of them
//   memory.h                   what instructions are made of: checked accesses, meetings
//   request.h, count.h         what a warp's accesses cost, summed by source line
//   order.h, shadow.h          what happens before what; who touched a byte, and what is under way
//   between.h                  what blocks of a grid see of each other
//   exports.h                  what Python calls
//
// Instructions are in ../instructions, one set a file: how their copies and products go on and end is
// theirs. ../cuda has what nvcc brings itself.
#pragma once
#include <atomic>
#include <mutex>

#include "between.h"
#include "block.h"

namespace lscd::simt {

// An array of global memory.
struct Array {
    const char* name;
    uint64_t address;
    int64_t bytes;
    int32_t writable;
    int32_t awaited;  // the grid before may still write it, or read what is written there
};

// The largest dynamic shared memory of a block, on sm_90.
constexpr int SHARED_LIMIT = 227 * 1024;
static_assert(SHARED_LIMIT < PART);

struct Machine {
    std::vector<Array> arrays = {};
    int threads = 1;
    int64_t watched = -1;  // number of the block (or cluster), of the first launch, whose requests are kept

    std::vector<const void*> kernels = {};  // by launch
    std::vector<int> carveouts = {};        // percent of shared memory asked for, by launch
    std::vector<Line> lines = {};           // of each worker: the same line may come more than once
    std::vector<Request> requests = {};     // of the watched block, in the order of each warp
    std::string fault = {};                 // of the last launch
    std::unique_ptr<Between> between = {};  // blocks of the last launch

    // Runs all blocks. After a fault only blocks before that one still run: the first is reported.
    bool run(const Launch& launch) {
        int blocks = int(launch.grid.count()) / launch.cluster;  // or clusters: they are one Block each
        std::atomic<int> faulty{blocks};
        std::mutex merging;
        between = std::make_unique<Between>(blocks, launch.cluster > 1 ? "cluster" : "block");
#pragma omp parallel num_threads(threads)
        {
            Block block(launch);
#pragma omp for schedule(monotonic : dynamic)  // blocks wait for earlier ones
            for (int i = 0; i < blocks; i++) {
                if (i <= faulty) block.run(i, launch.number == 0 && i == watched);
                between->end(i);
                if (i > faulty || block.fault.empty()) continue;
                std::lock_guard<std::mutex> guard(merging);
                if (i < faulty) faulty = i, fault = block.fault;
            }
            std::lock_guard<std::mutex> guard(merging);
            for (const auto& [place, counts] : block.counter.sums)
                lines.push_back({place.first, place.second, launch.number, counts});
            const std::vector<Request>& watched = block.counter.watched;
            requests.insert(requests.end(), watched.begin(), watched.end());
        }
        if (faulty == blocks) fault = between->left();
        return fault.empty();
    }

    // What is wrong with an access to global memory, or nothing; `early`: why the grid before may still
    // be running, if so.
    std::string check_global(uint64_t address, int64_t bytes, int align, bool write,
                             const char* early) const {
        const Array* below = nullptr;
        for (const Array& array : arrays)
            if (array.address <= address && (!below || array.address > below->address)) below = &array;
        if (!below) return "below all arrays of global memory: out of bounds";
        int64_t at = int64_t(address - below->address);
        auto there = [&](const std::string& wrong) {
            return "at byte " + std::to_string(at) + " of " + below->name + ": " + wrong;
        };
        if (at + bytes > below->bytes)
            return there("out of bounds, it has " + std::to_string(below->bytes) + " bytes");
        if (write && !below->writable) return there("a kernel must not write there");
        if (early && below->awaited) return there("the grid before may still use it, ") + early;
        if (address % uint64_t(align)) return there("misaligned");
        return {};
    }
};

inline Machine machine;

// Arrays that `extern __shared__` names: one per source and worker.
inline std::vector<unsigned char* (*)()> shared_arrays;

}  // namespace lscd::simt
