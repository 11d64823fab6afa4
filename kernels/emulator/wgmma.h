// What common/wgmma.cuh declares, for the emulator: a warpgroup's products of matrices in shared memory.
// They are computed when they are started. But sums become known, and operands may be touched, once the
// warp has waited; what st.shared or cp.async wrote must have been followed by a fence of the proxies.
#pragma once
#include <algorithm>

#include "described.h"
#include "matrices.h"

namespace lscd::simt {

struct Product {  // what a lane brings
    float* d;
    const uint32_t *a, *metadata;  // none: A is in shared memory
    uint64_t a_at, b_at;
    bool adds;
};

// The operands of a warp: 16 rows of A by slots, B as [k][n], and the row of B that a slot meets.
template <int N, int DEPTH>
struct Operands {
    double a[16][16], b[DEPTH][N];
    int met[16][16];
};

template <class T, int N>
void gather(Operands<N, 16>& to, Product* const*, const Described& a, int part) {
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            to.a[row][k] = a.element<T>(16 * part + row, k), to.met[row][k] = k;
}

// As mma.sp selects.
template <class T, int STEP, int N>
void gather_sparse(Operands<N, 32>& to, Product* const* lanes) {
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++) {
            uint32_t pair = lanes[row % 8 * 4 + k % 8 / 2]->a[row / 8 + k / 8 * 2];
            uint32_t metadata = *lanes[row % 8 * 4 + 2 * STEP + k / 8]->metadata;
            to.a[row][k] = element<T>(pair, k % 2);
            to.met[row][k] = k / 2 * 4 + int(metadata >> (row / 8 * 16 + k % 8 * 2) & 3);
        }
}

// The warp's sums, which nobody can know from now on.
inline Sums& sums_of(WgmmaQueue& queue, Product* const* lanes, size_t count) {
    auto [found, fresh] = queue.sums.try_emplace(lanes[0]->d);
    Sums& sums = found->second;
    for (int lane = 0; lane < 32 && fresh; lane++) {
        float* d = lanes[lane]->d;
        sums.lanes.push_back(d);
        sums.values.insert(sums.values.end(), d, d + count);
        std::fill_n(d, count, not_yet());
    }
    return sums;
}

template <int N, int DEPTH>
void add_up(std::vector<float>& sums, bool adds, const Operands<N, DEPTH>& of) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < N / 2; i++) {
            int row = lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
            float& d = sums[size_t(lane * N / 2 + i)];
            double sum = adds ? d : 0;
            for (int k = 0; k < 16; k++) sum += of.a[row][k] * of.b[of.met[row][k]][n];
            d = float(sum);
        }
}

// From now on a warp reads these units. Its last lane stands for it: where only one lane has waited for
// what lies there, that is the first.
inline std::string begin_reads(Warp& warp, const std::vector<int64_t>& units, Site site) {
    Moment now = Block::current->moment_of(*warp.lanes[31]);
    for (int64_t at : units)
        if (auto wrong = Block::current->shadow.begin_wgmma(at, UNIT, now, site); !wrong.empty())
            return "wgmma of 16 bytes at shared address " + std::to_string(at) + ": " + wrong;
    return "";
}

// Starts the product of a warpgroup; STEP -1: of dense A, in shared memory.
template <class T, int N, int STEP>
std::string start(Warp* warps, void** operands, Site site) {
    constexpr bool SPARSE = STEP >= 0;
    constexpr int DEPTH = SPARSE ? 32 : 16;
    auto* lanes = reinterpret_cast<Product**>(operands);
    for (int i = 0; i < 32 * WARPS_OF_GROUP; i++)
        if (lanes[i]->a_at != lanes[0]->a_at || lanes[i]->b_at != lanes[0]->b_at ||
            lanes[i]->adds != lanes[0]->adds)
            return "the lanes of a warpgroup bring different operands";
    Described a(lanes[0]->a_at, true), b(lanes[0]->b_at, !SPARSE);
    if (auto wrong = b.wrong(N, DEPTH); !wrong.empty()) return "wgmma's B: " + wrong;
    if (!SPARSE)
        if (auto wrong = a.wrong(64, DEPTH); !wrong.empty()) return "wgmma's A: " + wrong;
    Operands<N, DEPTH> of;
    for (int k = 0; k < DEPTH; k++)
        for (int n = 0; n < N; n++) of.b[k][n] = b.element<T>(n, k);
    for (int part = 0; part < WARPS_OF_GROUP; part++, lanes += 32) {
        WgmmaQueue& queue = warps[part].wgmmas;
        if (!queue.fenced) return "wgmma without a wgmma_fence since the group before: no fence between";
        Wgmma one = {site, b.units(0, N, DEPTH), {}, lanes[0]->d};
        if constexpr (SPARSE) {
            gather_sparse<T, STEP>(of, lanes);
            for (int lane = 0; lane < 32; lane++) one.hold(lanes[lane]->a, lanes[lane]->metadata);
        } else {
            gather<T>(of, lanes, a, part);
            for (int64_t at : a.units(16 * part, 16, DEPTH)) one.units.push_back(at);
        }
        if (auto wrong = begin_reads(warps[part], one.units, site); !wrong.empty()) return wrong;
        Sums& sums = sums_of(queue, lanes, N / 2);
        sums.site = site, sums.under_way++;
        add_up(sums.values, lanes[0]->adds, of);
        queue.open.push_back(std::move(one));
    }
    return "";
}

// --- the end of products ---

inline std::string commit_wgmmas(Warp& warp, uint32_t lanes, void**) {
    if (lanes != WHOLE_WARP) return "wgmma_commit needs all 32 lanes, not " + lanes_text(lanes);
    warp.wgmmas.groups.push_back(std::move(warp.wgmmas.open));
    warp.wgmmas.open.clear(), warp.wgmmas.fenced = false;
    return "";
}

inline std::string fence_wgmmas(Warp& warp, uint32_t lanes, void**) {
    if (lanes != WHOLE_WARP) return "wgmma_fence needs all 32 lanes, not " + lanes_text(lanes);
    warp.wgmmas.fenced = true;
    return "";
}

// What was read is no longer; sums that no other wgmma adds to are in their registers.
inline std::string end_wgmma(Warp& warp, const Wgmma& one) {
    Block& block = *Block::current;
    for (auto [at, value] : one.registers)
        if (*at != value)
            return "a register of the wgmma at " + one.site.text() + " was written: no wait between";
    for (int64_t at : one.units)
        block.shadow.end_wgmma(at, UNIT, block.moment_of(*warp.lanes[31]), one.site);
    auto found = warp.wgmmas.sums.find(one.sums);
    Sums& sums = found->second;
    if (--sums.under_way) return "";
    size_t count = sums.values.size() / 32;
    for (size_t i = 0; i < sums.values.size(); i++) {
        float& d = sums.lanes[i / count][i % count];
        if (!is_not_yet(d))
            return "a sum of the wgmma at " + one.site.text() + " was written: no wait between";
        d = sums.values[i];
    }
    warp.wgmmas.sums.erase(found);
    return "";
}

template <size_t GROUPS>
std::string wait_wgmmas(Warp& warp, uint32_t lanes, void**) {
    if (lanes != WHOLE_WARP) return "wgmma_wait needs all 32 lanes, not " + lanes_text(lanes);
    for (auto& groups = warp.wgmmas.groups; groups.size() > GROUPS; groups.pop_front())
        for (const Wgmma& one : groups.front())
            if (auto wrong = end_wgmma(warp, one); !wrong.empty()) return wrong;
    return "";
}

}  // namespace lscd::simt

namespace lscd {

inline void async_proxy_fence(simt::Site site = simt::here()) {
    simt::Block::current->shadow.fence(simt::Block::current->now(), site);
}
inline void wgmma_fence(simt::Site site = simt::here()) {
    simt::Block::current->meet(site, simt::WHOLE_WARP, simt::fence_wgmmas, nullptr);
}
inline void wgmma_commit(simt::Site site = simt::here()) {
    simt::Block::current->meet(site, simt::WHOLE_WARP, simt::commit_wgmmas, nullptr);
}
template <int GROUPS>
void wgmma_wait(simt::Site site = simt::here()) {
    simt::Block::current->meet(site, simt::WHOLE_WARP, simt::wait_wgmmas<GROUPS>, nullptr);
}
inline uint32_t wgmma_operand(uint32_t value) { return value; }
inline void wgmma_used(const uint32_t (&)[4]) {}

template <class T, int N>
void wgmma_m64k16(float (&d)[N / 8][4], uint64_t a, uint64_t b, uint32_t adds,
                  simt::Site site = simt::here()) {
    simt::Product mine = {d[0], nullptr, nullptr, a, b, adds != 0};
    simt::note({simt::Op::wgmma, site});
    simt::Block::current->meet_warpgroup(site, simt::start<T, N, -1>, &mine);
}

template <class T, int N, int STEP>
void wgmma_sp_m64k32(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b,
                     const uint32_t& metadata, uint32_t adds, simt::Site site = simt::here()) {
    simt::Product mine = {d[0], a, &metadata, 0, b, adds != 0};
    simt::note({simt::Op::wgmma_sp, site});
    simt::Block::current->meet_warpgroup(site, simt::start<T, N, STEP>, &mine);
}

}  // namespace lscd
