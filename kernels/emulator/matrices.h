// What a warp does with matrices: ldmatrix and stmatrix, mma, mma.sp and bmma, with the fragment layouts
// of the PTX manual. g is lane / 4, t is lane % 4.
#pragma once
#include "floats.h"
#include "warp.h"

namespace lscd::simt {

// --- 8x8 matrices of 16-bit elements in shared memory ---

struct Rows {
    unsigned char* row;  // of 8 elements; of lanes 8 i + r for row r of matrix i
    uint32_t* registers;
};

// Register i of a lane: elements 2t and 2t + 1 of row g of matrix i.
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
void ldmatrix(uint32_t* registers, void* row, Site site) {
    if (Block::lane->lane < 8 * MATRICES) read_shared(Op::ldmatrix, row, 16, site);
    else note({Op::ldmatrix, site});
    Rows mine = {static_cast<unsigned char*>(row), registers};
    Block::current->meet(site, WHOLE_WARP, distribute<MATRICES>, &mine);
}

// Where element (2t + half, g) of matrix i is: what a lane's half of register i holds, transposed.
inline unsigned char* transposed(void** operands, int lane, int i, int half) {
    return static_cast<Rows*>(operands[8 * i + lane % 4 * 2 + half])->row + lane / 4 * 2;
}

inline std::string distribute_transposed(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "ldmatrix needs all 32 lanes, not " + lanes_text(lanes);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            auto* pairs = reinterpret_cast<uint16_t*>(static_cast<Rows*>(operands[lane])->registers);
            memcpy(pairs + i, transposed(operands, lane, i / 2, i % 2), 2);
        }
    return "";
}

inline void ldmatrix_transposed(uint32_t* registers, void* row, Site site) {
    read_shared(Op::ldmatrix, row, 16, site);
    Rows mine = {static_cast<unsigned char*>(row), registers};
    Block::current->meet(site, WHOLE_WARP, distribute_transposed, &mine);
}

inline std::string collect_transposed(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "stmatrix needs all 32 lanes, not " + lanes_text(lanes);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            auto* pairs = reinterpret_cast<uint16_t*>(static_cast<Rows*>(operands[lane])->registers);
            memcpy(transposed(operands, lane, i / 2, i % 2), pairs + i, 2);
        }
    return "";
}

inline void stmatrix_transposed(void* row, uint32_t* registers, Site site) {
    write_shared(Op::stmatrix, row, 16, site);
    Rows mine = {static_cast<unsigned char*>(row), registers};
    Block::current->meet(site, WHOLE_WARP, collect_transposed, &mine);
}

// --- the tensor core ---

struct Fragments {
    float* d;
    const uint32_t *a, *b;
    uint32_t metadata;
};

// Element `half` of a register that holds two of type T.
template <class T>
double element(uint32_t pair, int half) {
    return to_float(T{uint16_t(pair >> 16 * half)});
}

// a [16][16]: of mma m16n8k16, and what mma.sp m16n8k32 has of it; b [K][8].
template <class T, int K>
void gather(void** operands, double (&a)[16][16], double (&b)[K][8]) {
    for (int lane = 0; lane < 32; lane++) {
        auto* mine = static_cast<Fragments*>(operands[lane]);
        int g = lane / 4, t = lane % 4;
        for (int half = 0; half < 2; half++) {
            int k = 2 * t + half;
            for (int r = 0; r < 4; r++)
                a[g + r % 2 * 8][k + r / 2 * 8] = element<T>(mine->a[r], half);
            for (int r = 0; r < K / 8; r++) b[k + r * 8][g] = element<T>(mine->b[r], half);
        }
    }
}

// d += a b, where a[m][k] meets row `met(m, k)` of b. Products are exact; their sum with d is made in
// fp64 and rounded once. A tensor core's own order and width are not specified: results differ from a
// GPU's by fp32 rounding.
template <class T, int K, class Met>
void multiply_add(void** operands, Met met) {
    double a[16][16], b[K][8];
    gather<T>(operands, a, b);
    for (int lane = 0; lane < 32; lane++)
        for (int r = 0; r < 4; r++) {
            int m = lane / 4 + r / 2 * 8, n = lane % 4 * 2 + r % 2;
            float& d = static_cast<Fragments*>(operands[lane])->d[r];
            double sum = d;
            for (int k = 0; k < 16; k++) sum += a[m][k] * b[met(m, k)][n];
            d = float(sum);
        }
}

inline float* known_sums(float* d, Site site) {
    for (int r = 0; r < 4; r++) known(d[r], site);
    return d;
}

template <class T>
std::string multiply(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "mma needs all 32 lanes, not " + lanes_text(lanes);
    multiply_add<T, 16>(operands, [](int, int k) { return k; });
    return "";
}

template <class T>
void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, Site site) {
    Fragments mine = {known_sums(d, site), a, b, 0};
    note({Op::mma, site});
    Block::current->meet(site, WHOLE_WARP, multiply<T>, &mine);
}

// Slot k of a row belongs to group k / 2, four rows of b; two bits of metadata say which of them it
// meets. Lane (g, 2 STEP + h) has those of row g, groups 4h to 4h + 3, and in its upper half those of
// row g + 8. All 16 codes of two slots select, as measured on an H200; PTX promises only those in
// which the second index is the larger one.
template <class T, int STEP>
std::string multiply_sparse(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "mma.sp needs all 32 lanes, not " + lanes_text(lanes);
    multiply_add<T, 32>(operands, [&](int m, int k) {
        int group = k / 2, lane = m % 8 * 4 + 2 * STEP + group / 4;
        int shift = m / 8 * 16 + group % 4 * 4 + k % 2 * 2;
        return 4 * group + int(static_cast<Fragments*>(operands[lane])->metadata >> shift & 3);
    });
    return "";
}

template <class T, int STEP>
void mma_sp_m16n8k32(float* d, const uint32_t* a, const uint32_t* b, uint32_t metadata, Site site) {
    Fragments mine = {known_sums(d, site), a, b, metadata};
    note({Op::mma_sp, site});
    Block::current->meet(site, WHOLE_WARP, multiply_sparse<T, STEP>, &mine);
}

struct Bits {
    uint32_t *d, a[2], b;
    const uint32_t* c;
};

inline std::string count_common(Warp&, uint32_t lanes, void** operands) {
    if (lanes != WHOLE_WARP) return "bmma needs all 32 lanes, not " + lanes_text(lanes);
    auto of = [&](int lane) { return static_cast<Bits*>(operands[lane]); };
    for (int lane = 0; lane < 32; lane++)
        for (int r = 0; r < 4; r++) {
            int g = lane / 4, n = lane % 4 * 2 + r % 2;
            uint32_t sum = of(lane)->c[r];
            for (int t = 0; t < 4; t++)
                sum += uint32_t(__builtin_popcount(of(4 * g + t)->a[r / 2] & of(4 * n + t)->b));
            of(lane)->d[r] = sum;
        }
    return "";
}

inline void bmma_m16n8k128(uint32_t* d, uint32_t a0, uint32_t a1, uint32_t b, const uint32_t* c,
                           Site site) {
    Bits mine = {d, {a0, a1}, b, c};
    note({Op::bmma, site});
    Block::current->meet(site, WHOLE_WARP, count_common, &mine);
}

}  // namespace lscd::simt
