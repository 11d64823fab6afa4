// Zero-row 2:4 in chunks that have their level 1 inside: what is theirs alone, and what they have other numbers of.
// The bytes are drawn in kernels/cpu/encode/zero_row_24_nested.h.
#pragma once
#include "zero_row_24_tile.cuh"

namespace lscd::zero_row_24 {

constexpr int NESTED_ORDERS = 48, LEVEL_ORDERS = 16;  // of a stream: groups of three steps, and of level 1
constexpr int LEVEL_SLOTS = 2;                        // of such a group

// Of a tile, and of a stream.
__host__ __device__ constexpr int piece_cols(Kind kind) { return kind == NESTED ? NESTED_COLS : TILE_COLS; }
__host__ __device__ constexpr int groups_of(Kind kind) { return piece_cols(kind) / 3; }
__device__ constexpr int orders_of(Kind kind) { return kind == NESTED ? NESTED_ORDERS : ORDERS; }
template <Kind KIND>
using TilesOf = Stack<piece_cols(KIND)>;

// Of a group of a tile. That of 4 q + t is that of 4 q, and that of t more.
__device__ constexpr int first_column(Kind kind, int group) {
    return kind == NESTED ? group % 8 / 2 * 18 + group / 8 * 6 + group % 2 * 3 : 3 * group;
}

// Of column i, counted group by group.
__device__ constexpr int column_by_groups(Kind kind, int i) {
    return kind == NESTED ? first_column(kind, i / 3) + i % 3 : i;
}

// A group's code: its nibble, or another one if it sends a weight.
constexpr uint32_t FULL = 6;  // of a group with three weights
__device__ constexpr uint32_t sending_code(uint32_t nibble) { return nibble == 3 ? 10 : nibble ^ 14; }
__device__ constexpr bool is_sending(uint32_t code) {
    return (1 << 10 | 1 << 6 | 1 << 5 | 1 << 2 | 1 << 1 | 1) >> code & 1;
}
__device__ constexpr uint32_t nibble_of_code(uint32_t code) {
    return !is_sending(code) ? code : code == 10 ? 3 : code ^ 14;
}
// The 16 bytes of a chunk with the codes of groups 8 n to 8 n + 7 of a stream, and of the other tiles': a lane's of
// steps 0 and 1, then those of step 2.
__device__ constexpr int planes_at(int g, int n) { return 16 * (n < 4 ? 4 * g + n : 4 * TILE_STREAMS + 2 * g + n - 4); }

// Of the groups of a stream, in its order, a bit for each that sends a weight. Those whose middle columns are a group
// of level 1, that of `order` among them; how many of these send; values that it has.
__device__ constexpr uint64_t of_one_level(int order) { return uint64_t(0x100010001) << order % LEVEL_ORDERS; }
__device__ inline int senders(uint64_t sends, int order) { return __popcll(sends & of_one_level(order)); }
__device__ inline int values_of_level(uint64_t sends, int order) { return min(senders(sends, order), LEVEL_SLOTS); }
// Calls visit(the group that sends it) for each value of level 1, in their order: of three groups the first and the
// last one.
template <class Visit>
__device__ void for_each_of_level(uint64_t sends, Visit visit) {
    for (int order = 0; sends && order < LEVEL_ORDERS; order++)
        for (int step = 0; step < 3; step++) {
            int at = LEVEL_ORDERS * step + order;
            bool no_slot = step == 1 && senders(sends, order) > LEVEL_SLOTS;
            if (sends >> at & 1 && !no_slot) visit(at);
        }
}

}  // namespace lscd::zero_row_24
