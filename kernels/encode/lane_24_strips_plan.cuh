// Lane 2:4 in strips on the GPU: how many lines a chunk has, which of its weights have a slot there,
// and where the others, its entries, stand. A warp has a chunk, and each lane its own groups of it.
#pragma once
#include "lane_24_strips.cuh"

namespace lscd::lane_24 {
namespace {

constexpr int CANDIDATES = 14;                  // numbers of lines
constexpr int STEP_COST = 256, FAR_COST = 768;  // in bytes, beside those that a step has
constexpr int WIDE_BYTES = 4096, NARROW_COST = 2048;  // of a chunk that has more before far steps

__device__ inline uint32_t mask_of(uint2 group) {
    return nonzero_mask(group.x) | nonzero_mask(group.y) << 2;
}

__device__ inline uint32_t weight(uint2 group, int i) {
    return half_of(i < 2 ? group.x : group.y, i % 2);
}

__device__ inline uint32_t highest_bit(uint32_t bits) {
#pragma unroll
    for (int d = 1; d < 32; d *= 2) bits |= bits >> d;
    return bits ^ bits >> 1;
}

// What the lane's groups have: bit `order` of at_least(n) is set where one has n weights or more.
class Contents {
    uint32_t at_least_[4] = {};

  public:
    __device__ explicit Contents(const Tile& tile) {
        for (int order = 0; order < GROUPS; order++) {
            int n = __popc(mask_of(tile.group(order)));
#pragma unroll
            for (int i = 0; i < 4; i++) at_least_[i] |= uint32_t(n > i) << order;
        }
    }
    __device__ uint32_t at_least(int n) const { return at_least_[n - 1]; }
};

__device__ inline int cost(const Sizes& sizes) {
    int narrow = sizes.far_from() > WIDE_BYTES;
    return sizes.bytes() + STEP_COST * sizes.steps + FAR_COST * sizes.far() + NARROW_COST * narrow;
}

// How many lines the chunk has: as many as the longest lane needs, or less where it is cheaper that
// the last words of some lanes become entries.
struct Plan {
    Sizes sizes{0, 0};
    int entries = 0;        // of the chunk
    uint32_t present = 0;   // of the lane's groups, those with a word

    __device__ explicit Plan(const Contents& has) {
        uint32_t fits = has.at_least(1);
        int mine = __popc(has.at_least(3)) + __popc(has.at_least(4));
        int most = -__reduce_min_sync(ALL_LANES, -__popc(fits)), least = 0;
        for (int lines = most; lines >= max(0, most - CANDIDATES + 1); lines--) {
            if (__popc(fits) > lines) {
                uint32_t last = highest_bit(fits);
                fits ^= last;
                mine += 1 + ((has.at_least(2) & last) != 0);
            }
            int all = __reduce_add_sync(ALL_LANES, mine);
            Sizes these(lines, (all + PLACES - 1) / PLACES);
            if (lines < most && cost(these) >= least) continue;
            least = cost(these), sizes = these, entries = all, present = fits;
        }
    }
};

// Sum over the lanes up to this one that have an even, or odd, t as it has.
template <class T>
__device__ T scan_of_kind(T value) {
#pragma unroll
    for (int d = 2; d < LANES; d *= 2) {
        T before = __shfl_up_sync(ALL_LANES, value, d);
        if (lane_id() >= d) value += before;
    }
    return value;
}

// Columns without a slot, of a group of three or four weights that is the nth of its kind.
__device__ inline uint32_t left_out(uint32_t mask, int nth) {
    int from = nth % 4;
    uint32_t turned = (mask | mask << 4) >> from & 15;
    uint32_t found = (mask == 15 ? 3 : turned & -turned) << from;
    return (found | found >> 4) & 15;
}

// Which weights have a slot: two of a group that has a word. Others are entries.
class Slots {
    uint32_t present_, full_;
    int before_;  // full groups of the kind, in lanes before

  public:
    __device__ Slots(const Contents& has, const Plan& plan)
        : present_(plan.present), full_(has.at_least(3)) {
        int own = __popc(full_);
        before_ = scan_of_kind(own) - own;
    }

    __device__ bool has_word(int order) const { return present_ >> order & 1; }
    // Columns of a group that become entries.
    __device__ uint32_t left(int order, uint32_t mask) const {
        if (!has_word(order)) return mask;
        if (!(full_ >> order & 1)) return 0;
        return left_out(mask, before_ + __popc(full_ & below(order)));
    }
};

// Four counters of 16 bits, one for each column of a group, as what a group adds to them.
__device__ inline uint64_t counters(uint32_t mask) {
    return mask * 0x200040008001ull & 0x1000100010001ull;
}
__device__ inline int counter(uint64_t counters, int i) { return int(counters >> 16 * i & 0xffff); }

// Numbers of entries: a place p = column % 8 is 4 * (t % 2) + column of the group.
class Numbers {
    uint64_t next_, count_[2];  // of the lane's next entry; in the chunk, where t is even and odd

  public:
    __device__ Numbers(const Tile& tile, const Slots& slots) {
        uint64_t mine = 0;
        for (int order = 0; order < GROUPS; order++)
            mine += counters(slots.left(order, mask_of(tile.group(order))));
        uint64_t upto = scan_of_kind(mine);
        next_ = upto - mine;
        for (int odd = 0; odd < 2; odd++)
            count_[odd] = __shfl_sync(ALL_LANES, upto, LANES - 2 + odd);
    }
    // Where the lane's next entry of a column of its groups stands among all: the first ones of the
    // places come first, then their second ones, and so on.
    __device__ int position(int column) {
        int place = lane_id() % 2 * 4 + column, i = counter(next_, column), found = 0;
        next_ += 1ull << 16 * column;
#pragma unroll
        for (int p = 0; p < PLACES; p++) found += min(counter(count_[p / 4], p % 4), i + (p < place));
        return found;
    }
};

}  // namespace
}  // namespace lscd::lane_24
