// What instructions are made of: accesses that are checked, then noted for their request, and meetings.
#pragma once
#include "machine.h"

namespace lscd::simt {

inline void note(const Access& access) {
    Lane& lane = *Block::lane;
    lane.warp->accesses[size_t(lane.lane)].push_back(access);
}

// --- lanes together ---

using Action = std::string (*)(const Party&);

// What lanes of this warp do together; `brought` is this lane's.
inline void meet(Site site, uint32_t lanes, void* brought, Action action) {
    Block::current->meet({site, Group::warp, lanes, action, brought});
}
inline void meet_whole_warp(const char* instruction, Site site, void* brought, Action action) {
    Block::current->meet({site, Group::warp, ~0u, action, brought, instruction});
}

// --- shared memory ---

// Shared memory of an SM begins with bytes that no kernel may use.
constexpr uint32_t SHARED_BASE = 1024;

// Of an address of another block of the cluster: its rank + 1 lies above the bits of an own address.
constexpr int RANK_BIT = 24;

inline int rank() { return Block::lane->warp->rank; }

// Byte `at` of the shared memory of a block of the cluster. Beyond it, that is in no other block's.
inline unsigned char* in_part(int64_t at, int rank) {
    int part = at < 0 ? 0 : at < PART ? rank : Block::current->launch.cluster - 1;
    return Block::current->shared + (part * PART + at);
}
// The number of a byte in the shared memory of this lane's block.
inline int64_t in_own_part(const void* memory) {
    int64_t at = static_cast<const unsigned char*>(memory) - Block::current->shared;
    return at - rank() * PART;
}

// What an address of shared memory stands for, and back. It may lie outside: that is for the access to
// find.
inline unsigned char* shared_memory(uint32_t address) {
    uint32_t named = Block::current->launch.cluster > 1 ? address >> RANK_BIT : 0;
    return in_part(int64_t(address - (named << RANK_BIT)) - SHARED_BASE, named ? int(named) - 1 : rank());
}
inline uint32_t shared_address(const void* memory) { return uint32_t(in_own_part(memory)) + SHARED_BASE; }

// Makes the `extern __shared__` array that this is an address in the blocks' shared memory. Where that
// is of this lane's block.
inline unsigned char* find_shared(void* memory, Site site) {
    auto* at = static_cast<unsigned char*>(memory);
    for (auto array : shared_arrays)
        if (array() <= at && at < array() + SHARED_LIMIT) {
            Block::current->shared = array();
            return in_part(at - array(), rank());
        }
    Block::current->fail(site, "Shared of an address that is not in extern __shared__ memory");
}

inline std::string sized(const char* what, int bytes) {
    return std::string(what) + " of " + std::to_string(bytes) + " bytes";
}
inline std::string shared_text(int64_t at) {
    int64_t parts = Block::current->launch.cluster, part = at / PART;
    if (parts == 1 || at < 0 || part >= parts) return "shared address " + std::to_string(at);
    return "shared address " + std::to_string(at % PART) + " of rank " + std::to_string(part);
}
inline std::string at_shared(int64_t at) { return " at " + shared_text(at); }

// Ends the launch if something is wrong with an access to shared memory.
inline void judge(const char* what, int64_t at, int bytes, Site site, const std::string& wrong) {
    if (!wrong.empty()) Block::current->fail(site, sized(what, bytes) + at_shared(at) + ": " + wrong);
}

// Offset of an address in shared memory, for an access that must fit; aligned to its size, or as said.
inline int64_t shared_offset(const char* what, const void* address, int bytes, Site site,
                             int align = 0) {
    int64_t at = static_cast<const unsigned char*>(address) - Block::current->shared;
    judge(what, at, bytes, site, Block::current->shadow.outside(at, bytes));
    if (at % (align ? align : bytes)) judge(what, at, bytes, site, "misaligned");
    return at;
}

inline void read_shared(Op op, const char* what, const void* from, int bytes, Site site) {
    Moment now = Block::lane->now();
    int64_t at = shared_offset(what, from, bytes, site);
    for (int64_t i = at; i < at + bytes; i++) {
        Cell& cell = Block::current->shadow[i];
        judge(what, at, bytes, site, cell.unreadable(now));
        cell.note_read(now, site, 1u << now.lane);
    }
    note({op, site, {at, bytes}});
}

// Checks a write of any kind; where it is.
inline int64_t begin_write(const char* what, const void* to, int bytes, Site site, const Writing& how,
                           int align = 0) {
    Moment now = Block::lane->now();
    Shadow& shadow = Block::current->shadow;
    int64_t at = shared_offset(what, to, bytes, site, align);
    for (int64_t i = at; i < at + bytes; i++)
        judge(what, at, bytes, site, shadow[i].unwritable(now, how));
    shadow.note_write(at, bytes, now, site, how);
    return at;
}
inline void write_shared(Op op, const char* what, const void* to, int bytes, Site site) {
    note({op, site, {begin_write(what, to, bytes, site, STORE), bytes}});
}
// Atomics race with everything but each other. Their wavefronts are not counted.
inline int64_t change_shared(const void* to, int bytes, Site site) {
    int64_t at = begin_write("atomic", to, bytes, site, ATOMIC);
    return note({Op::atomic, site}), at;
}

// --- global memory ---

// What another block stores in the same grid must be behind a flag.
inline void note_load(const void* from, int bytes, Site site) {
    Block& block = *Block::current;
    const Acquired& seen = Block::lane->states.of<Acquired>();
    std::string wrong = machine.between->load(block.counter.block, uint64_t(from), seen);
    if (!wrong.empty()) block.fail(site, sized("load", bytes) + ": " + wrong);
}
inline void note_store(const void* to, const void* value, int bytes, Site site) {
    Block& block = *Block::current;
    Touch by;
    by.add(Block::lane->now(), site);
    block.states.of<Unreleased>().all.push_back({uint64_t(to), by});
    std::string wrong = machine.between->store(block.counter.block, uint64_t(to), value, size_t(bytes));
    if (!wrong.empty()) block.fail(site, sized("store", bytes) + ": " + wrong);
}

// `movable`: past griddepcontrol.wait, as far as the compiler is concerned.
inline void check_global(const char* what, const void* address, int bytes, int align, bool write,
                         Site site, bool movable = false) {
    const char* early = !Block::lane->after_grid ? "no griddepcontrol.wait before"
                        : movable ? "compilers move __ldg to before griddepcontrol.wait" : nullptr;
    if (!Block::current->launch.early) early = nullptr;
    std::string wrong = machine.check_global(uint64_t(address), bytes, align, write, early);
    if (!wrong.empty()) Block::current->fail(site, sized(what, bytes) + " " + wrong);
}

}  // namespace lscd::simt
