// Bytes and bits of registers.
#pragma once
#include <cstdint>

namespace lscd {

inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
    uint64_t bytes = uint64_t(high) << 32 | low;
    uint32_t chosen = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t byte = uint32_t(bytes >> 8 * (selector >> 4 * i & 7)) & 255;
        if (selector >> 4 * i & 8) byte = byte & 128 ? 255 : 0;
        chosen |= byte << 8 * i;
    }
    return chosen;
}

inline uint32_t bytes_from(uint32_t low, uint32_t high, uint32_t first) {
    return uint32_t((uint64_t(high) << 32 | low) >> 8 * (first & 3));
}

inline uint32_t select_bits(uint32_t mask, uint32_t ones, uint32_t zeros) {
    return (mask & ones) | (~mask & zeros);
}

}  // namespace lscd
