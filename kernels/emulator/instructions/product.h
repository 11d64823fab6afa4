// A warp's part of a product on the tensor core: 16 rows of A, 16 slots each, times N columns of B.
// g is lane / 4, t is lane % 4.
#pragma once
#include "floats.h"

namespace lscd::simt {

// Element `half` of a register that holds two of type T.
template <class T>
double element(uint32_t pair, int half) {
    return to_float(T{uint16_t(pair >> 16 * half)});
}

// Slot k of row m of A meets row met[m][k] of B. Products are exact; their sum is made in fp64 and
// rounded once. A tensor core's own order and width are not specified: results differ from a GPU's by
// fp32 rounding.
template <class T, int N, int DEPTH>
struct WarpProduct {
    double a[16][16], b[DEPTH][N];
    int met[16][16];

    // Register r of a lane: A's slots 2t and 2t + 1, + 8 in the upper two; row g, + 8 in the odd ones.
    template <class Registers>
    void gather_a(Registers of) {
        for (int row = 0; row < 16; row++)
            for (int k = 0; k < 16; k++)
                a[row][k] = element<T>(of(row % 8 * 4 + k % 8 / 2)[row / 8 + k / 8 * 2], k % 2);
    }

    void meet_in_order() {
        for (auto& row : met)
            for (int k = 0; k < 16; k++) row[k] = k;
    }

    // Slot k of sparse A belongs to group k / 2, four rows of B; two bits of metadata say which of them
    // it meets. Lane (g, 2 STEP + h) has those of row g, groups 4h to 4h + 3, and in its upper half
    // those of row g + 8. All 16 codes of two slots select, as measured on an H200; PTX promises only
    // those in which the second index is the larger one.
    template <int STEP, class Metadata>
    void select(Metadata of) {
        for (int row = 0; row < 16; row++)
            for (int k = 0; k < 16; k++)
                met[row][k] = k / 2 * 4 + int(of(row % 8 * 4 + 2 * STEP + k / 8) >>
                                                  (row / 8 * 16 + k % 8 * 2) & 3);
    }

    // Sum number i of a lane: of columns 8 (i / 4) + 2t and + 1; row g, + 8 in the upper two of four.
    float add(float d, int lane, int i) const {
        int row = lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
        double sum = d;
        for (int k = 0; k < 16; k++) sum += a[row][k] * b[met[row][k]][n];
        return float(sum);
    }
};

}  // namespace lscd::simt
