// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements in shared memory, with the fragment layouts of
// the PTX manual. Lane 8 i + r brings row r of matrix i; g is lane / 4, t is lane % 4.
#pragma once
#include "shared.h"

namespace lscd::simt {

struct Rows {
    unsigned char* row;  // of 8 elements
    uint32_t* registers;
};

// Register i of a lane: elements 2t and 2t + 1 of row g of matrix i.
template <int MATRICES>
void ldmatrix(uint32_t* registers, void* row, Site site) {
    if (Block::lane->lane < 8 * MATRICES) read_shared(Op::ldmatrix, "ldmatrix", row, 16, site);
    else note({Op::ldmatrix, site});
    Rows mine = {static_cast<unsigned char*>(row), registers};
    meet_whole_warp("ldmatrix", site, &mine, [](const Party& all) {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < MATRICES; i++)
                memcpy(all.of<Rows>(lane).registers + i,
                       all.of<Rows>(8 * i + lane / 4).row + lane % 4 * 4, 4);
        return std::string();
    });
}

// Four matrices, each transposed: half h of register i is element (2t + h, g) of matrix i.
template <bool STORES>
std::string transpose(const Party& all) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            auto* half = reinterpret_cast<char*>(all.of<Rows>(lane).registers) + 2 * i;
            auto* element = all.of<Rows>(i / 2 * 8 + lane % 4 * 2 + i % 2).row + lane / 4 * 2;
            STORES ? memcpy(element, half, 2) : memcpy(half, element, 2);
        }
    return "";
}

}  // namespace lscd::simt

namespace lscd {

template <class T>
void ldmatrix_x4(uint32_t (&r)[4], Shared<T> from, int i, simt::Site site = simt::here()) {
    simt::ldmatrix<4>(r, from.at(i), site);
}
template <class T>
void ldmatrix_x2(uint32_t (&r)[2], Shared<T> from, int i, simt::Site site = simt::here()) {
    simt::ldmatrix<2>(r, from.at(i), site);
}
inline void ldmatrix_x4_trans(uint32_t (&r)[4], Address from, simt::Site site = simt::here()) {
    simt::Rows mine = {simt::shared_memory(from), r};
    read_shared(simt::Op::ldmatrix, "ldmatrix", mine.row, 16, site);
    meet_whole_warp("ldmatrix", site, &mine, simt::transpose<false>);
}
inline void stmatrix_x4_trans(Address to, const uint4& r, simt::Site site = simt::here()) {
    uint32_t registers[4] = {r.x, r.y, r.z, r.w};
    simt::Rows mine = {simt::shared_memory(to), registers};
    write_shared(simt::Op::stmatrix, "stmatrix", mine.row, 16, site);
    meet_whole_warp("stmatrix", site, &mine, simt::transpose<true>);
}

}  // namespace lscd
