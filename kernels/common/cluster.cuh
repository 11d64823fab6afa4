// The PTX of clusters on sm_90: thread blocks that run at the same time, and reach each other's shared
// memory. As in ptx.cuh each instruction has its own name, and the emulator has functions of these names.
#pragma once
#include "ptx.cuh"

#ifdef LSCD_EMULATOR
#include "../emulator/instructions/cluster.h"
#else

namespace lscd {

// Of this thread block in its cluster.
__device__ inline uint32_t rank_in_cluster() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Where thread block `rank` has what this one has at an address of its own: for the functions below.
__device__ inline Address at_rank(Address own, uint32_t rank) {
    Address there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
    return there;
}

// All threads of all its blocks meet: what they have done before, all of them see.
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}

// As mbarrier_arrive, at a barrier of any thread block of the cluster. Who waits for it may rely on what it has
// read, but not on what it has stored: that would take release.cluster here and acquire.cluster there, which
// invalidates the L1 at each wait.
__device__ inline void mbarrier_arrive_at(Address barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// `bytes` of this block's shared memory to another's, whose barrier counts them; a multiple of 16, as are
// all addresses. It reads what stores have written before a fence of the proxies.
__device__ inline void bulk_copy_at(Address to, Address from, uint32_t bytes, Address barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            to),
        "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// The same of a warp: see warp_bulk_copy.
__device__ inline void warp_bulk_copy_at(Address to, Address from, uint32_t bytes, Address barrier) {
    asm volatile(
        "{ .reg .pred p; elect.sync _|p, 0xffffffff;"
        " @p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3]; }" ::"r"(
            to),
        "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// A warpgroup gives registers of its threads away, or takes such: it has so many of them then, a multiple of
// 8. It waits until there are enough.
template <int REGISTERS>
__device__ inline void keep_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

}  // namespace lscd

#endif
