// Memory as lanes see it: every access is checked, noted for its request, then made.
#pragma once
#include <type_traits>

#include "floats.h"
#include "machine.h"

namespace lscd::simt {

inline void note(const Access& access) { Block::lane->accesses.push_back(access); }

// Makes the `extern __shared__` array that this is an address in the block's shared memory.
inline void find_shared(void* memory, Site site) {
    auto* at = static_cast<unsigned char*>(memory);
    for (auto array : machine.shared_arrays)
        if (array() <= at && at < array() + SHARED_LIMIT) {
            Block::current->shared = array();
            return;
        }
    Block::current->fail(site, "Shared of an address that is not in extern __shared__ memory");
}

inline std::string sized(const char* what, int bytes) {
    return std::string(what) + " of " + std::to_string(bytes) + " bytes";
}

// Ends the launch if something is wrong with an access to shared memory.
inline void judge(const char* what, int64_t at, int bytes, Site site, const std::string& wrong) {
    if (wrong.empty()) return;
    std::string place = sized(what, bytes) + " at shared address " + std::to_string(at);
    Block::current->fail(site, place + ": " + wrong);
}

// Shared memory of an SM begins with bytes that no kernel may use.
constexpr uint32_t SHARED_BASE = 1024;

// What an address of shared memory stands for, and back. It may lie outside: that is for the access to
// find.
inline unsigned char* shared_memory(uint32_t address) {
    return Block::current->shared + (int64_t(address) - SHARED_BASE);
}
inline uint32_t shared_address(const void* memory) {
    return uint32_t(static_cast<const unsigned char*>(memory) - Block::current->shared) + SHARED_BASE;
}

// Offset of an address in shared memory, for an access of `bytes` that must fit.
inline int64_t shared_offset(const char* what, const void* address, int bytes, Site site) {
    Block& block = *Block::current;
    int64_t at = static_cast<const unsigned char*>(address) - block.shared;
    if (at < 0 || at + bytes > block.shadow.bytes())
        judge(what, at, bytes, site,
              "out of bounds, the block has " + std::to_string(block.shadow.bytes()) + " bytes");
    judge(what, at, bytes, site, at % bytes ? "misaligned" : "");
    return at;
}

inline void read_shared(Op op, const void* from, int bytes, Site site) {
    Block& block = *Block::current;
    const char* what = op == Op::ldmatrix ? "ldmatrix" : "load";
    int64_t at = shared_offset(what, from, bytes, site);
    judge(what, at, bytes, site, block.shadow.read(at, bytes, block.now(), site));
    note({op, site, at, bytes});
}

inline void write_shared(Op op, const void* to, int bytes, Site site) {
    Block& block = *Block::current;
    const char* what = op == Op::stmatrix ? "stmatrix" : op == Op::mbarrier ? "mbarrier" : "store";
    int64_t at = shared_offset(what, to, bytes, site);
    judge(what, at, bytes, site, block.shadow.write(at, bytes, block.now(), site, Write::store));
    note({op, site, at, bytes});
}

// Atomics race with everything but each other. Their wavefronts are not counted.
inline void change_shared(const void* to, int bytes, Site site) {
    Block& block = *Block::current;
    int64_t at = shared_offset("atomic", to, bytes, site);
    judge("atomic", at, bytes, site,
          block.shadow.write(at, bytes, block.now(), site, Write::atomic));
    note({Op::atomic, site});
}

// `movable`: past griddepcontrol.wait, as far as the compiler is concerned.
inline void check_global(const char* what, const void* address, int bytes, int align, bool write,
                         Site site, bool movable = false) {
    const char* early = !Block::current->launch.early ? nullptr
                        : !Block::lane->after_grid    ? "no griddepcontrol.wait before"
                        : movable ? "compilers move __ldg to before griddepcontrol.wait"
                                  : nullptr;
    std::string wrong = machine.check_global(uint64_t(address), bytes, align, write, early);
    if (!wrong.empty()) Block::current->fail(site, sized(what, bytes) + " " + wrong);
}

// A value, which no wgmma is yet to write.
template <class T>
const T& known(const T& value, Site site) {
    if constexpr (std::is_same_v<T, float>)
        if (is_not_yet(value))
            Block::current->fail(site, "uses a sum that a wgmma may still be computing: no wait between");
    return value;
}

template <class T>
T load_global(const T* from, Site site, bool movable = false) {
    check_global("load", from, sizeof(T), sizeof(T), false, site, movable);
    note({Op::global_load, site, 0, 0, sizeof(T), uint64_t(from)});
    return *from;
}

template <class T>
void store_global(T* to, const T& value, Site site) {
    check_global("store", to, sizeof(T), sizeof(T), true, site);
    note({Op::global_store, site, 0, 0, sizeof(T), uint64_t(to)});
    *to = known(value, site);
}

// cp.async: the bytes are read now, and arrive in shared memory when the thread waits for them.
inline void start_copy(const void* to, const void* from, int valid, Site site) {
    Block& block = *Block::current;
    Copy copy = {shared_offset("cp.async", to, 16, site), site, {}};
    judge("cp.async", copy.to, 16, site,
          block.shadow.write(copy.to, 16, block.now(), site, Write::cp_async));
    if (valid) check_global("cp.async", from, valid, 16, false, site);
    memcpy(copy.data, from, size_t(valid));
    note({Op::cp_async, site, copy.to, 16, valid, uint64_t(from)});
    Block::lane->copies.push_back(copy);
}

inline void commit_copies(Site site) {
    note({Op::commit, site});
    Block::lane->groups.push_back(std::move(Block::lane->copies));
    Block::lane->copies.clear();
}

inline void wait_copies(size_t pending, Site site) {
    Block& block = *Block::current;
    note({Op::wait, site, 0, 0, 0, 0, int32_t(pending)});
    for (auto& groups = Block::lane->groups; groups.size() > pending; groups.pop_front())
        for (const Copy& copy : groups.front()) {
            memcpy(block.shared + copy.to, copy.data, sizeof copy.data);
            block.shadow.arrive(copy.to, sizeof copy.data, block.now(), copy.site);
        }
}

}  // namespace lscd::simt
