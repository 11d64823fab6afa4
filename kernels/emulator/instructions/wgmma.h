// What common/wgmma.cuh declares, for the emulator: a warpgroup's products of matrices in shared
// memory. They are computed when they are started. But sums become known, and operands may be touched,
// once the warp has waited; what st.shared or cp.async wrote must have been followed by a fence of the
// proxies.
#pragma once
#include "product.h"
#include "wgmma_pending.h"

namespace lscd::simt {

struct Product {  // what a lane brings
    float* d;
    const uint32_t *a, *metadata;  // none: A is in shared memory
    uint64_t a_at, b_at;
    bool adds;

    bool same(const Product& other) const {
        return a_at == other.a_at && b_at == other.b_at && adds == other.adds;
    }
};

// What is STEP of a product whose A is dense: where that is.
constexpr int IN_SHARED = -1, IN_REGISTERS = -2;

// The part of warp `number` of a warpgroup's product, with B gathered.
template <class T, int N, int STEP, int DEPTH>
std::string start_part(WarpProduct<T, N, DEPTH>& of, const Party& all, int number, const Described& a,
                       const Described& b) {
    Warp& warp = all.warps[number];
    auto lane = [&](int i) -> const Product& { return all.of<Product>(32 * number + i); };
    if (!wgmmas(warp).fenced)
        return "wgmma without a wgmma_fence since the group before: no fence between";
    Wgmma one = {all.at.site, b.units(0, N, DEPTH), {}, lane(0).d};
    if constexpr (STEP < 0) of.meet_in_order();
    if constexpr (STEP == IN_SHARED) {
        for (int i = 0; i < 256; i++)
            of.a[i / 16][i % 16] = a.element<T>(16 * number + i / 16, i % 16);
        for (int64_t at : a.units(16 * number, 16, DEPTH)) one.units.push_back(at);
    } else {
        of.gather_a([&](int i) { return lane(i).a; });
        if constexpr (STEP >= 0) of.template select<STEP>([&](int i) { return *lane(i).metadata; });
        for (int i = 0; i < 32; i++) {
            for (int r = 0; r < 4; r++) one.registers.emplace_back(lane(i).a + r, lane(i).a[r]);
            if (STEP >= 0) one.registers.emplace_back(lane(i).metadata, *lane(i).metadata);
        }
    }
    if (auto wrong = begin_reads(warp, one.units, all.at.site); !wrong.empty()) return wrong;
    std::vector<float*> registers;
    for (int i = 0; i < 32; i++) registers.push_back(lane(i).d);
    std::vector<float>& sums = begin_sums(warp, registers, N / 2).values;
    for (int i = 0; i < 32 * N / 2; i++)
        sums[size_t(i)] = of.add(lane(0).adds ? sums[size_t(i)] : 0, i / (N / 2), i % (N / 2));
    wgmmas(warp).open.push_back(std::move(one));
    return "";
}

template <class T, int N, int STEP>
std::string start(const Party& all) {
    constexpr int DEPTH = STEP < 0 ? 16 : 32;
    const auto& first = all.of<Product>(0);
    for (int i = 0; i < 32 * WARPS_OF_GROUP; i++)
        if (!all.of<Product>(i).same(first)) return "the lanes of a warpgroup bring different operands";
    Described a(first.a_at, true), b(first.b_at, STEP < 0);
    if (auto wrong = b.wrong(N, DEPTH); !wrong.empty()) return "wgmma's B: " + wrong;
    if (STEP == IN_SHARED)
        if (auto wrong = a.wrong(64, DEPTH); !wrong.empty()) return "wgmma's A: " + wrong;
    WarpProduct<T, N, DEPTH> of;
    for (int k = 0; k < DEPTH; k++)
        for (int n = 0; n < N; n++) of.b[k][n] = b.element<T>(n, k);
    for (int number = 0; number < WARPS_OF_GROUP; number++)
        if (auto wrong = start_part<T, N, STEP>(of, all, number, a, b); !wrong.empty()) return wrong;
    return "";
}

inline void meet_warpgroup(Site site, Action action, void* brought = nullptr) {
    Block::current->meet({site, Group::warpgroup, ~0u, action, brought});
}
// What one of them finds wrong, or nothing.
template <class Do>
std::string all_warps(const Party& all, Do action) {
    for (int number = 0; number < WARPS_OF_GROUP; number++)
        if (std::string wrong = action(all.warps[number]); !wrong.empty()) return wrong;
    return "";
}

template <class T, int N, int STEP>
void start_product(const Product& mine, Site site) {
    meet_warpgroup(site, start<T, N, STEP>, const_cast<Product*>(&mine));
}

}  // namespace lscd::simt

namespace lscd {

inline void async_proxy_fence(simt::Site site = simt::here()) {
    simt::Touch made;
    made.add(simt::Block::lane->now(), site);
    auto& fences = simt::Block::lane->states.of<simt::Fences>().all;
    fences.push_back({made, simt::Block::current->shadow.writes});
}
// PTX wants each of these from all lanes of the warpgroup at once (.aligned): under a condition that is
// not the same for its four warps they are faults.
inline void wgmma_fence(simt::Site site = simt::here()) {
    simt::meet_warpgroup(site, [](const simt::Party& all) {
        return all_warps(all, [](simt::Warp& warp) { return wgmmas(warp).fenced = true, std::string(); });
    });
}
inline void wgmma_commit(simt::Site site = simt::here()) {
    simt::meet_warpgroup(site, [](const simt::Party& all) {
        return all_warps(all, [](simt::Warp& warp) {
            simt::Wgmmas& mine = wgmmas(warp);
            mine.groups.push_back(std::move(mine.open));
            mine.open.clear(), mine.fenced = false;
            return std::string();
        });
    });
}
template <int GROUPS>
void wgmma_wait(simt::Site site = simt::here()) {
    simt::note({simt::Op::wgmma_wait, site});
    simt::meet_warpgroup(site, [](const simt::Party& all) {
        return all_warps(all, [](simt::Warp& warp) {
            for (auto& groups = wgmmas(warp).groups; groups.size() > GROUPS; groups.pop_front())
                for (const simt::Wgmma& one : groups.front())
                    if (auto wrong = end_wgmma(warp, one); !wrong.empty()) return wrong;
            return std::string();
        });
    });
}

// What the compiler must not see through.
inline uint32_t wgmma_operand(uint32_t value) { return value; }
inline void wgmma_used(const uint32_t (&)[4]) {}

template <class T, int N>
void wgmma_m64k16(float (&d)[N / 8][4], uint64_t a, uint64_t b, uint32_t adds,
                  simt::Site site = simt::here()) {
    simt::Product mine = {d[0], nullptr, nullptr, a, b, adds != 0};
    const simt::Lane& lane = *simt::Block::lane;
    int row = lane.warp->in_block % simt::WARPS_OF_GROUP * 16 + lane.lane % 16;
    bool reads_a = lane.lane < 16;  // the request has the first unit of 16 rows, and of columns
    simt::Described matrix(reads_a ? a : b, true);
    Address first = matrix.address(reads_a ? row : row % N, 0);
    int64_t at = simt::shared_memory(first) - simt::Block::current->shared;
    simt::note({simt::Op::wgmma, site, {at, simt::UNIT}});
    simt::start_product<T, N, simt::IN_SHARED>(mine, site);
}
template <class T, int N>
void wgmma_m64k16(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, simt::Site site = simt::here()) {
    simt::Product mine = {d[0], a, nullptr, 0, b, true};
    simt::note({simt::Op::wgmma, site});
    simt::start_product<T, N, simt::IN_REGISTERS>(mine, site);
}
template <class T, int N, int STEP>
void wgmma_sp_m64k32(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b,
                     const uint32_t& metadata, uint32_t adds, simt::Site site = simt::here()) {
    simt::Product mine = {d[0], a, &metadata, 0, b, adds != 0};
    simt::note({simt::Op::wgmma_sp, site});
    simt::start_product<T, N, STEP>(mine, site);
}

}  // namespace lscd
