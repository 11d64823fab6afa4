// Metadata of sparse products with the two indices of each group in ascending order.
#pragma once
#include <cstdint>

namespace lscd {

inline uint32_t ascending(uint32_t metadata) {
    uint32_t sorted = 0;
    for (int group = 0; group < 8; group++) {
        uint32_t first = metadata >> 4 * group & 3, second = metadata >> (4 * group + 2) & 3;
        sorted |= (first < second ? first | second << 2 : second | first << 2) << 4 * group;
    }
    return sorted;
}

}  // namespace lscd
