// mma, mma.sp and bmma, with the fragment layouts of the PTX manual.
#pragma once
#include "product.h"

namespace lscd::simt {

struct Fragments {
    float* d;
    const uint32_t *a, *b;
    uint32_t metadata;
};

// STEP -1: A is dense.
template <class T, int STEP>
std::string multiply(const Party& all) {
    constexpr int DEPTH = STEP < 0 ? 16 : 32;
    WarpProduct<T, 8, DEPTH> of;
    of.gather_a([&](int lane) { return all.of<Fragments>(lane).a; });
    for (int k = 0; k < DEPTH; k++)
        for (int n = 0; n < 8; n++)
            of.b[k][n] = element<T>(all.of<Fragments>(4 * n + k % 8 / 2).b[k / 8], k % 2);
    if constexpr (STEP < 0) of.meet_in_order();
    else of.template select<STEP>([&](int lane) { return all.of<Fragments>(lane).metadata; });
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            float& d = all.of<Fragments>(lane).d[i];
            d = of.add(d, lane, i);
        }
    return "";
}

template <class T, int STEP>
void mma(Op op, float (&d)[4], const uint32_t* a, const uint32_t* b, uint32_t metadata, Site site) {
    for (float one : d) known(one, site);
    Fragments mine = {d, a, b, metadata};
    note({op, site});
    meet_whole_warp(STEP < 0 ? "mma" : "mma.sp", site, &mine, multiply<T, STEP>);
}

}  // namespace lscd::simt

namespace lscd {

template <class T>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  simt::Site site = simt::here()) {
    simt::mma<T, -1>(simt::Op::mma, d, a, b, 0, site);
}
template <class T>  // k = 8 to 15 of k16: zeros
void mma_m16n8k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, simt::Site site = simt::here()) {
    uint32_t a[4] = {a0, a1, 0, 0}, two[2] = {b, 0};
    simt::mma<T, -1>(simt::Op::mma, d, a, two, 0, site);
}
template <class T, int STEP>
void mma_sp_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t metadata,
                     simt::Site site = simt::here()) {
    simt::mma<T, STEP>(simt::Op::mma_sp, d, a, b, metadata, site);
}

// d [16][8]: c + the number of common bits of rows of a and columns of b, 128 each.
inline void bmma_m16n8k128(uint32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b,
                           const uint32_t (&c)[4], simt::Site site = simt::here()) {
    struct Bits {
        uint32_t *d, a[2], b;
        const uint32_t* c;
    } mine = {d, {a0, a1}, b, c};
    simt::note({simt::Op::bmma, site});
    meet_whole_warp("bmma", site, &mine, [](const simt::Party& all) {
        for (int lane = 0; lane < 32; lane++)
            for (int r = 0; r < 4; r++) {
                int g = lane / 4, n = lane % 4 * 2 + r % 2;
                uint32_t sum = all.of<Bits>(lane).c[r];
                for (int t = 0; t < 4; t++)
                    sum += uint32_t(__builtin_popcount(all.of<Bits>(4 * g + t).a[r / 2] &
                                                       all.of<Bits>(4 * n + t).b));
                all.of<Bits>(lane).d[r] = sum;
            }
        return std::string();
    });
}

}  // namespace lscd
