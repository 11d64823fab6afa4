// Memory as lanes see it: every access is checked, noted for its request, then made.
#pragma once
#include "machine.h"

namespace lscd::simt {

inline std::string sized(const char* what, int bytes) {
    return std::string(what) + " of " + std::to_string(bytes) + " bytes";
}

// Makes `memory`, an address in an `extern __shared__` array, this block's shared memory.
inline void find_shared(void* memory, Site site) {
    Block& block = *Block::current;
    auto* at = static_cast<unsigned char*>(memory);
    for (auto array : machine.shared_arrays)
        if (array() <= at && at < array() + SHARED_LIMIT) {
            block.shared = array();
            return;
        }
    block.fail(site, "Shared of an address that is not in extern __shared__ memory");
}

// Offset of an address in shared memory, for an access of `bytes` that must fit.
inline int64_t shared_offset(const void* address, int bytes, const char* what, Site site) {
    Block& block = *Block::current;
    int64_t at = static_cast<const unsigned char*>(address) - block.shared;
    std::string place = sized(what, bytes) + " at shared address " + std::to_string(at);
    if (at < 0 || at + bytes > block.shadow.bytes())
        block.fail(site, place + ": out of bounds, the block has " +
                             std::to_string(block.shadow.bytes()) + " bytes");
    if (at % bytes) block.fail(site, place + ": misaligned");
    return at;
}

inline void read_shared(Op op, const void* from, int bytes, Site site) {
    Block& block = *Block::current;
    const char* what = op == Op::ldmatrix ? "ldmatrix" : "load";
    int64_t at = shared_offset(from, bytes, what, site);
    std::string wrong = block.shadow.read(at, bytes, block.now(), site);
    if (!wrong.empty())
        block.fail(site, sized(what, bytes) + " at shared address " + std::to_string(at) + ": " + wrong);
    block.note({op, site, at, bytes});
}

inline void write_shared(void* to, int bytes, Site site) {
    Block& block = *Block::current;
    int64_t at = shared_offset(to, bytes, "store", site);
    std::string wrong = block.shadow.write(at, bytes, block.now(), site, false);
    if (!wrong.empty())
        block.fail(site, sized("store", bytes) + " at shared address " + std::to_string(at) + ": " + wrong);
    block.note({Op::shared_store, site, at, bytes});
}

inline void check_global(const void* address, int bytes, int align, bool write, const char* what,
                         Site site) {
    std::string wrong = machine.check_global(uint64_t(address), bytes, align, write);
    if (!wrong.empty()) Block::current->fail(site, sized(what, bytes) + ": " + wrong);
}

template <class T>
T load_global(const T* from, Site site) {
    check_global(from, sizeof(T), sizeof(T), false, "load", site);
    Block::current->note({Op::global_load, site, 0, 0, sizeof(T), uint64_t(from)});
    return *from;
}

template <class T>
void store_global(T* to, const T& value, Site site) {
    check_global(to, sizeof(T), sizeof(T), true, "store", site);
    Block::current->note({Op::global_store, site, 0, 0, sizeof(T), uint64_t(to)});
    *to = value;
}

// cp.async: the bytes are read now, and arrive in shared memory when the thread waits for them.
inline void start_copy(void* to, const void* from, int valid, Site site) {
    Block& block = *Block::current;
    Copy copy = {shared_offset(to, 16, "cp.async", site), 16, site, {}};
    std::string wrong = block.shadow.write(copy.to, 16, block.now(), site, true);
    if (!wrong.empty())
        block.fail(site, "cp.async to shared address " + std::to_string(copy.to) + ": " + wrong);
    if (valid) check_global(from, valid, 16, false, "cp.async", site);
    memcpy(copy.data, from, size_t(valid));
    block.note({Op::cp_async, site, copy.to, 16, valid, uint64_t(from)});
    Block::lane->copies.push_back(copy);
}

inline void commit_copies() {
    Block::lane->groups.push_back(std::move(Block::lane->copies));
    Block::lane->copies.clear();
}

inline void wait_copies(size_t pending) {
    Block& block = *Block::current;
    for (auto& groups = Block::lane->groups; groups.size() > pending; groups.pop_front())
        for (const Copy& copy : groups.front()) {
            memcpy(block.shared + copy.to, copy.data, sizeof copy.data);
            block.shadow.arrive(copy.to, copy.bytes, block.now(), copy.site);
        }
}

}  // namespace lscd::simt
