// Bulk copies to shared memory, whose bytes an mbarrier counts.
#pragma once
#include <tuple>

#include "mbarrier.h"
#include "proxies.h"

namespace lscd::simt {

// Where one lands, and when.
struct BulkTarget {
    int64_t at;
    Mbarrier& barrier;
    const Writing& how;

    void take(const void* from, uint32_t bytes) const {
        auto* first = static_cast<const unsigned char*>(from);
        barrier.copies.push_back({at, {first, first + bytes}});
        barrier.bytes -= bytes;
    }
};

inline BulkTarget begin_bulk_copy(uint32_t to, uint32_t bytes, uint32_t address, Site site) {
    Block& block = *Block::current;
    Mbarrier& barrier = mbarrier_at(address, site);
    if (!barrier.fenced)
        block.fail(site, "a bulk copy uses the mbarrier" + at_shared(barrier.at) +
                             " that was made at " + barrier.made.text() + ": no fence between");
    if (!bytes || bytes % BULK_UNIT)
        block.fail(site, sized("bulk copy", int(bytes)) + ": allowed: multiples of 16");
    const int64_t at = shared_offset("bulk copy", shared_memory(to), int(bytes), site, BULK_UNIT);
    for (int64_t i = at; i < at + bytes; i++)
        judge("bulk copy", at, int(bytes), site, unfenced(block.shadow[i], Block::lane->now()));
    mbarriers().bulk_copies.push_back({"a bulk copy", barrier.clock, barrier.phase + 1});
    const Writing& how = mbarriers().bulk_copies.back();
    return {begin_write("bulk copy", shared_memory(to), int(bytes), site, how, BULK_UNIT), barrier, how};
}

// Of a warp, any lane of which may be elected.
template <class Copy>
void ask(Copy mine, Site site) {
    meet(site, ~0u, &mine, [](const Party& all) {
        for (int i = 1; i < 32; i++)
            if (all.of<Copy>(i) != all.of<Copy>(0))
                return "lane " + std::to_string(i) + " asks for another copy than lane 0";
        return std::string();
    });
}

}  // namespace lscd::simt

namespace lscd {

inline void bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                      uint64_t /*policy*/, simt::Site site = simt::here()) {
    simt::BulkTarget target = simt::begin_bulk_copy(to, bytes, barrier, site);
    check_global("bulk copy", from, int(bytes), simt::BULK_UNIT, false, site);
    target.take(from, bytes);
    simt::note({simt::Op::bulk_copy, site, {target.at, bytes}, {int64_t(from), bytes}});
}

inline void lane_bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                           uint64_t policy, simt::Site site = simt::here()) {
    mbarrier_arrive_expect(barrier, bytes, site);
    bulk_copy(to, from, bytes, barrier, policy, site);
}
inline void warp_bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier,
                           uint64_t policy, simt::Site site = simt::here()) {
    simt::ask(std::make_tuple(to, from, bytes, barrier), site);
    if (simt::Block::lane->lane == 0) lane_bulk_copy(to, from, bytes, barrier, policy, site);
}

}  // namespace lscd
