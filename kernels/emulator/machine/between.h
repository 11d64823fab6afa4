// What blocks of one grid have to do with each other. What one stores in global memory, another may read
// behind a flag: the first sets it behind its stores, the other waits for it, and may take it away. Blocks begin in
// the order of their numbers, so that one may wait for those before it. Here the blocks of a cluster are one.
#pragma once
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "order.h"
#include "state.h"

namespace lscd::simt {

struct Stored {
    uint64_t address;
    Touch by;
};
struct Unreleased : State {  // of a block: what it has stored, and no flag tells of yet
    std::vector<Stored> all;
};
struct Acquired : State {  // of a lane: flags that it has seen set
    std::set<uint64_t> flags;
};

// Accesses are known by where they begin.
class Between {
    struct Word {
        int writer = -1, reader = -1;  // blocks
        uint64_t flag = 0;             // that tells of what the writer stored
        unsigned char value[16] = {};  // what that is: memory may get it later, from another worker
        size_t bytes = 0;
    };
    std::mutex busy;
    std::unordered_map<uint64_t, Word> words;
    std::map<uint64_t, Site> flags;  // that are set, and where
    std::unique_ptr<std::atomic<bool>[]> ended;

    std::string each;  // of those that are numbered: block, or cluster

    std::string of(const char* did, int block) const {
        return std::string(did) + " by " + each + " " + std::to_string(block) + " of the grid, ";
    }

  public:
    Between(int blocks, const char* each) : ended(new std::atomic<bool>[size_t(blocks)]()), each(each) {}

    void end(int block) { ended[size_t(block)] = true; }

    // What is wrong with a block's access, or nothing. Several may store the same.
    std::string store(int block, uint64_t address, const void* value, size_t bytes) {
        std::lock_guard<std::mutex> guard(busy);
        Word& word = words[address];
        if (word.reader >= 0 && word.reader != block) return of("read", word.reader) + "no wait between";
        if (word.writer >= 0 && word.writer != block)
            return word.bytes == bytes && !memcmp(word.value, value, bytes)
                       ? std::string()
                       : of("stored", word.writer) + "no wait between";
        word.writer = block, word.flag = 0;
        memcpy(word.value, value, word.bytes = bytes);
        return {};
    }
    std::string load(int block, uint64_t address, const Acquired& seen) {
        std::lock_guard<std::mutex> guard(busy);
        Word& word = words[address];
        word.reader = block;
        if (word.writer < 0 || word.writer == block || seen.flags.count(word.flag)) return {};
        return of("stored", word.writer) + (word.flag ? "no wait between" : "no flag tells of it");
    }

    // A flag is set: it tells of what happened before.
    void release(uint64_t flag, Site site, const Moment& now, Unreleased& stores) {
        std::lock_guard<std::mutex> guard(busy);
        std::vector<Stored> later;
        for (const Stored& one : stores.all)
            if (one.by.races_with(now)) later.push_back(one);
            else words[one.address].flag = flag;
        stores.all = later, flags[flag] = site;
    }
    void unset(uint64_t flag) {
        std::lock_guard<std::mutex> guard(busy);
        flags.erase(flag);
    }
    bool is_set(uint64_t flag) {
        std::lock_guard<std::mutex> guard(busy);
        return flags.count(flag);
    }
    // What is wrong when all blocks have ended, or nothing: the next grid takes a flag that is left for its own.
    std::string left() const {
        return flags.empty() ? std::string() : flags.begin()->second.text() + ", sets a flag that nobody takes away";
    }
    // Whether blocks before this one may still set a flag.
    bool others_run(int block) const {
        for (int i = 0; i < block; i++)
            if (!ended[size_t(i)]) return true;
        return false;
    }
};

}  // namespace lscd::simt
