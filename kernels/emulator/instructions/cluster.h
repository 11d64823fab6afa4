// What common/cluster.cuh declares, for the emulator: blocks of a cluster meet, and reach each other's
// shared memory. None may end before one of its lanes knows that others no longer do.
#pragma once
#include "bulk_copy.h"
#include "warp.h"
#include "wgmma_pending.h"

namespace lscd::simt {

// Uses of a block's shared memory that its lanes do not know of by themselves.
struct Reaches : State {  // of a cluster
    struct Latest {
        int time;
        Site site;
        const char* what;
    };
    std::map<std::tuple<int, int, uint32_t>, Latest> all;  // by the block's rank; clock, and lanes
    std::list<Source> sources;

    Unfinished unfinished() const override {
        for (const auto& [by, latest] : all) {
            auto [rank, clock, lanes] = by;
            if (!Block::current->knows(rank, clock, latest.time, lanes))
                return {latest.site, latest.what, rank};
        }
        return {};
    }
};

inline Reaches& reaches() { return Block::current->states.of<Reaches>(); }

inline int rank_of(int64_t at) { return int(at / PART); }

// A copy reads its own block's shared memory, from now until what it writes is written.
inline const unsigned char* begin_copy_from(uint32_t address, int bytes, const Writing& how, Site site) {
    unsigned char* first = shared_memory(address);
    int64_t at = shared_offset("bulk copy", first, bytes, site, BULK_UNIT);
    if (rank_of(at) != rank()) judge("bulk copy", at, bytes, site, "it can read its own block's only");
    Moment now = Block::lane->now();
    Touch by;
    by.add(now, site);
    reaches().sources.push_back({&how, by});
    reaches().all[{rank(), how.clock, ~0u}] = {how.time, site, "a bulk copy from its shared memory"};
    for (int64_t i = at; i < at + bytes; i++) {
        Cell& cell = Block::current->shadow[i];
        judge("bulk copy", at, bytes, site, cell.unreadable(now));
        judge("bulk copy", at, bytes, site, unfenced(cell, now));
        cell.note_read(now, site, 1u << now.lane), cell.source = &reaches().sources.back();
    }
    return first;
}

}  // namespace lscd::simt

namespace lscd {

inline uint32_t rank_in_cluster() { return uint32_t(simt::rank()); }

inline Address at_rank(Address own, uint32_t rank, simt::Site site = simt::here()) {
    uint32_t blocks = uint32_t(simt::Block::current->launch.cluster);
    if (rank >= blocks)
        simt::Block::current->fail(site, "rank " + std::to_string(rank) + " of a cluster of " +
                                             std::to_string(blocks));
    return blocks == 1 ? own : (own & ((1u << simt::RANK_BIT) - 1)) | (rank + 1) << simt::RANK_BIT;
}

// PTX lets each warp come to one of its own; here all must come to the same.
inline void cluster_barrier(simt::Site site = simt::here()) {
    simt::note({simt::Op::barrier, site});
    simt::Block::current->meet({site, simt::Group::cluster, ~0u, simt::synchronise});
}

inline void mbarrier_arrive_at(Address barrier, simt::Site site = simt::here()) {
    simt::arrive(barrier, 0, site);
    int rank = simt::rank_of(simt::shared_memory(barrier) - simt::Block::current->shared);
    simt::Moment now = simt::Block::lane->now();
    if (rank == simt::rank()) return;
    simt::reaches().all[{rank, now.warp, 1u << now.lane}] = {now.time, site, "another block's arrival there"};
}

inline void bulk_copy_at(Address to, Address from, uint32_t bytes, Address barrier,
                         simt::Site site = simt::here()) {
    simt::BulkTarget target = simt::begin_bulk_copy(to, bytes, barrier, site);
    if (simt::rank_of(target.at) != simt::rank_of(target.barrier.at))
        simt::Block::current->fail(site, "a bulk copy to another block than that of its mbarrier" +
                                             simt::at_shared(target.barrier.at));
    target.take(simt::begin_copy_from(from, int(bytes), target.how, site), bytes);
    simt::note({simt::Op::bulk_copy, site, {target.at, bytes}});
}

inline void warp_bulk_copy_at(Address to, Address from, uint32_t bytes, Address barrier,
                              simt::Site site = simt::here()) {
    simt::ask(std::make_tuple(to, from, bytes, barrier), site);
    if (simt::Block::lane->lane == 0) bulk_copy_at(to, from, bytes, barrier, site);
}

// Registers are not counted here.
template <int REGISTERS>
inline void keep_registers() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
}
template <int REGISTERS>
inline void take_registers() {
    keep_registers<REGISTERS>();
}

}  // namespace lscd
