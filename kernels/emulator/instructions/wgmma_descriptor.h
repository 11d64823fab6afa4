// Matrices in shared memory as the descriptors of wgmma give them (common/wgmma.cuh makes them).
#pragma once
#include <utility>
#include <vector>

#include "floats.h"

namespace lscd::simt {

constexpr int UNIT = 16;  // bytes, of one swizzle's pieces, or a line without a swizzle

// Elements (row, k): row of A, or column of B.
struct Described {
    uint64_t descriptor;
    bool k_major;
    uint32_t start, next_part, next_eight, swizzle;  // swizzle: bits of an address that it changes

    // Without a swizzle, n-major, the two distances change places.
    Described(uint64_t descriptor, bool k_major)
        : descriptor(descriptor), k_major(k_major), start(field(0)), next_part(field(16)),
          next_eight(field(32)), swizzle(uint32_t(4 - (descriptor >> 62)) & 3) {
        if (!swizzle && !k_major) std::swap(next_part, next_eight);
    }

    // A line has 64, 32, 16 or 8 elements; what follows in it is elsewhere.
    uint32_t address(int row, int k) const {
        int line = k_major ? row : k, in_line = k_major ? k : row, width = 8 << swizzle;
        uint32_t at = start + uint32_t(line % 8 * width + in_line % width) * 2 +
                      uint32_t(line / 8) * next_eight + uint32_t(in_line / width) * next_part;
        return at ^ (at >> 7 & mask()) << 4;
    }

    // Offsets of the units that elements [first, first + rows) x [0, depth) lie in.
    std::vector<int64_t> units(int first, int rows, int depth) const {
        std::vector<int64_t> found;
        for (int row = first; row < first + rows; row += k_major ? 1 : 8)
            for (int k = 0; k < depth; k += k_major ? 8 : 1)
                found.push_back(shared_memory(address(row, k) & ~15u) - Block::current->shared);
        return found;
    }

    template <class T>
    double element(int row, int k) const {
        T half;
        memcpy(&half, shared_memory(address(row, k)), sizeof half);
        return to_float(half);
    }

    // What is wrong with a matrix of so many rows, or nothing.
    std::string wrong(int rows, int depth) const {
        if (!swizzle && k_major) return "a k-major descriptor without swizzle, which the emulator does not know";
        if (descriptor >> 49 & 7 || start >> 7 & mask())
            return "a matrix that does not begin at a line that is a multiple of 8";
        for (int64_t at : units(0, rows, depth))
            if (std::string outside = Block::current->shadow.outside(at, UNIT); !outside.empty())
                return shared_text(at) + ": " + outside;
        return "";
    }

  private:
    uint32_t field(int bit) const { return uint32_t(descriptor >> bit & 0x3fff) << 4; }
    uint32_t mask() const { return (1u << swizzle) - 1; }
};

}  // namespace lscd::simt
