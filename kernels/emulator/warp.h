// What the lanes of a warp do together: shuffles, votes, ldmatrix and mma, with the fragment layouts of
// the PTX manual. g is lane / 4, t is lane % 4.
#pragma once
#include "floats.h"
#include "memory.h"

namespace lscd::simt {

constexpr uint32_t WHOLE_WARP = ~0u;

// --- shuffles and votes ---

struct Shuffled {
    uint64_t bits;
    int from;  // lane
};

inline std::string exchange(Warp&, uint32_t lanes, void** operands) {
    uint64_t bits[32];
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) bits[i] = static_cast<Shuffled*>(operands[i])->bits;
    for (int i = 0; i < 32; i++) {
        if (!(lanes >> i & 1)) continue;
        auto* mine = static_cast<Shuffled*>(operands[i]);
        if (!(lanes >> mine->from & 1))
            return "lane " + std::to_string(i) + " shuffles from lane " +
                   std::to_string(mine->from) + ", which takes no part";
        mine->bits = bits[mine->from];
    }
    return "";
}

// The value that lane `from` brought.
template <class T>
T shuffle(uint32_t mask, T value, int from, Site site) {
    static_assert(sizeof(T) <= 8);
    Shuffled mine = {0, from};
    memcpy(&mine.bits, &value, sizeof value);
    note({Op::shuffle, site});
    Block::current->meet(site, mask, exchange, &mine);
    memcpy(&value, &mine.bits, sizeof value);
    return value;
}

struct Voted {
    bool predicate;
    uint32_t ballot;
};

inline std::string count_votes(Warp&, uint32_t lanes, void** operands) {
    uint32_t ballot = 0;
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) ballot |= uint32_t(static_cast<Voted*>(operands[i])->predicate) << i;
    for (int i = 0; i < 32; i++)
        if (lanes >> i & 1) static_cast<Voted*>(operands[i])->ballot = ballot;
    return "";
}

inline uint32_t vote(uint32_t mask, bool predicate, Site site) {
    Voted mine = {predicate, 0};
    note({Op::vote, site});
    Block::current->meet(site, mask, count_votes, &mine);
    return mine.ballot;
}

inline std::string synchronise(Warp& warp, uint32_t, void**) {
    warp.epoch++;
    return "";
}

inline void sync_warp(uint32_t mask, Site site) {
    note({Op::warp_barrier, site});
    Block::current->meet(site, mask, synchronise, nullptr);
}

// --- ldmatrix ---

struct Rows {
    const unsigned char* row;  // of 8 elements; of lanes 8 i + r for row r of matrix i
    uint32_t* registers;
};

// Lane's register i: elements 2t and 2t + 1 of row g of matrix i.
template <int MATRICES>
std::string distribute(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "ldmatrix needs all 32 lanes, not " + lanes_text(lanes);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < MATRICES; i++) {
            const unsigned char* row = static_cast<Rows*>(operands[8 * i + lane / 4])->row;
            memcpy(static_cast<Rows*>(operands[lane])->registers + i, row + lane % 4 * 4, 4);
        }
    return "";
}

template <int MATRICES>
void ldmatrix(uint32_t* registers, const void* row, Site site) {
    if (Block::lane->lane < 8 * MATRICES) read_shared(Op::ldmatrix, row, 16, site);
    else note({Op::ldmatrix, site});
    Rows mine = {static_cast<const unsigned char*>(row), registers};
    Block::current->meet(site, WHOLE_WARP, distribute<MATRICES>, &mine);
}

// --- mma ---

struct Fragments {
    float* d;
    const uint32_t *a, *b;
};

// Element `half` of a register that holds two of type T.
template <class T>
double element(uint32_t pair, int half) {
    return to_float(T{uint16_t(pair >> 16 * half)});
}

// d += a b. Products are exact; their sum with d is made in fp64 and rounded once. A tensor core's own
// order and width are not specified: results differ from a GPU's by fp32 rounding.
template <class T>
std::string multiply(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "mma needs all 32 lanes, not " + lanes_text(lanes);
    double a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        auto* mine = static_cast<Fragments*>(operands[lane]);
        int g = lane / 4, t = lane % 4;
        for (int half = 0; half < 2; half++) {
            int k = 2 * t + half;
            for (int r = 0; r < 4; r++)
                a[g + r % 2 * 8][k + r / 2 * 8] = element<T>(mine->a[r], half);
            for (int r = 0; r < 2; r++) b[k + r * 8][g] = element<T>(mine->b[r], half);
        }
    }
    for (int lane = 0; lane < 32; lane++)
        for (int r = 0; r < 4; r++) {
            int m = lane / 4 + r / 2 * 8, n = lane % 4 * 2 + r % 2;
            float& d = static_cast<Fragments*>(operands[lane])->d[r];
            double sum = d;
            for (int k = 0; k < 16; k++) sum += a[m][k] * b[k][n];
            d = float(sum);
        }
    return "";
}

template <class T>
void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, Site site) {
    Fragments mine = {d, a, b};
    note({Op::mma, site});
    Block::current->meet(site, WHOLE_WARP, multiply<T>, &mine);
}

}  // namespace lscd::simt
