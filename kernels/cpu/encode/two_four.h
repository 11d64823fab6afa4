// How 2:4 stores a group of four columns, for 2:4 itself and for SparTA.
//
//   one group: 4 columns        stored
//   +---+---+---+---+           values   a  b        the first two non-zeros, left to right
//   | 0 | a | 0 | b |    ->     indices  1  3        their columns in the group, 2 bits each
//   +---+---+---+---+
//
// Where a group has fewer than two, its last free columns (value +0) take the places that are left:
// 0 a 0 0 -> (a, 0) at (1, 3);  0 0 0 a -> (0, a) at (2, 3);  0 0 0 0 -> (0, 0) at (2, 3).
// So indices always increase, as mma.sp wants them, and every matrix has one encoding.
//
// A byte of indices holds 8 columns of one row (bits 0-1 the first index, bits 2-3 the second, 4-7
// the next group); each row is padded to 8 columns. Four bytes are one metadata word of mma.sp.
#pragma once
#include <array>

#include "scan.h"

namespace lscd {

// By the mask of non-zeros in a group: first index | second index << 2.
constexpr std::array<u8, 16> make_slots() {
    std::array<u8, 16> slots{};
    for (int mask = 0; mask < 16; mask++) {
        int kept = 0, count = 0;
        for (int c = 0; c < 4 && count < 2; c++)
            if (mask >> c & 1) kept |= 1 << c, count++;
        for (int c = 3; count < 2; c--)
            if (!(mask >> c & 1)) kept |= 1 << c, count++;
        int first = 0, second = 3;
        while (!(kept >> first & 1)) first++;
        while (!(kept >> second & 1)) second--;
        slots[mask] = u8(first | second << 2);
    }
    return slots;
}
constexpr std::array<u8, 16> SLOTS = make_slots();

constexpr i64 CHUNK = 8;  // columns of one byte of indices

struct Slots {
    i64 first, second;  // columns in the group
    Slots(u8 nibble) : first(nibble & 3), second(nibble >> 2 & 3) {}
};

// The 8 weights from column k on, padded with zeros at the right edge.
struct Chunk {
    u16 padded[CHUNK] = {};
    const u16* weights;
    u64 mask;
    Chunk(const u16* row, i64 k, i64 K) : weights(row + k) {
        if (k + CHUNK > K) {
            memcpy(padded, row + k, sizeof(u16) * (K - k));
            weights = padded;
        }
        mask = nonzero8(weights);
    }
};

}  // namespace lscd
