// Lane 2:4 in strips on the GPU: how many lines a chunk has, which of its weights have a slot there,
// and where the others, its entries, stand. A warp has a chunk, and each lane its own groups of it.
#pragma once
#include "lane_24_strips.cuh"

namespace lscd::lane_24 {
namespace {

constexpr int CANDIDATES = 14;                  // numbers of lines
constexpr int STEP_COST = 256, FOUR_COST = 640, FAR_COST = 768;  // in bytes, beside those that a step has
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
    int steps = STEP_COST * (sizes.single() + sizes.far()) + FOUR_COST * sizes.fours();
    return sizes.bytes() + steps + FAR_COST * sizes.far() + NARROW_COST * narrow;
}

// Halves of words that the lane's groups have, bit `order` where a group has the first one, and where it has
// the second. A word begins with a first half.
struct Halves {
    uint32_t first = 0, second = 0;

    Halves() = default;
    __device__ explicit Halves(const Contents& has) : first(has.at_least(2)), second(first) {
        uint32_t alone = 0;  // the group before, if its word has room
        for (uint32_t some = has.at_least(1); some; some &= some - 1) {
            uint32_t group = some & -some;
            bool two = has.at_least(2) & group, same_step = alone >> GROUPS_OF_STEP || group < 0x10000;
            bool shares = alone && same_step && !two;
            if (shares) second |= group;
            else first |= group;
            alone = two || shares ? 0 : group;
        }
    }
    __device__ uint32_t any() const { return first | second; }
    __device__ uint32_t of_group(int order) const {
        return (first >> order & 1) | (second >> order & 1) << 1;
    }
};

// Where the words of lanes stand: those of step 0 in bank `lane`, those of step 1 in bank `second`, whose
// lane has few words in step 0 if this one has many in step 1.
class Banks {
    int first_ = 0;  // of whose words of step 1 stand in bank `lane`

    // How many keys are below the lane's own, of two keys of 16 bits each.
    static __device__ uint32_t ranks(uint32_t keys) {
        uint32_t found = 0;
        for (int i = 0; i < LANES; i++) {
            uint32_t other = __shfl_sync(ALL_LANES, keys, i);
            found += uint32_t(half_of(other, 0) < half_of(keys, 0));
            found += uint32_t(half_of(other, 1) < half_of(keys, 1)) << 16;
        }
        return found;
    }
    static __device__ uint32_t exchanged(uint32_t groups, int lane) {
        return (groups & 0xffff) | (__shfl_sync(ALL_LANES, groups, lane) & 0xffff0000);
    }

  public:
    int second = 0;

    __device__ explicit Banks(const Halves& halves) {
        uint32_t above = __popc(halves.first & 0xffff), fewer = 16 - __popc(halves.first >> 16);
        uint32_t last = LANES * LANES * (lane_id() / 4 % 2) + lane_id();  // lanes with an even g come first
        uint32_t mine = ranks((above | fewer << 16) * LANES + last * 0x10001u);
        for (int i = 0; i < LANES; i++) {
            uint32_t other = __shfl_sync(ALL_LANES, mine, i);
            if (half_of(other, 0) == half_of(mine, 1)) second = i;
            if (half_of(other, 1) == half_of(mine, 0)) first_ = i;
        }
    }
    // Halves of the lane's groups become those of the groups whose words its bank has, and the other way round.
    __device__ Halves of_bank(const Halves& halves) const {
        Halves found;
        found.first = exchanged(halves.first, first_), found.second = exchanged(halves.second, first_);
        return found;
    }
    __device__ Halves of_lane(const Halves& halves) const {
        Halves found;
        found.first = exchanged(halves.first, second), found.second = exchanged(halves.second, second);
        return found;
    }
};

// How many lines the chunk has: as many as the longest bank needs, or less where it is cheaper that
// the last words of some banks become entries.
struct Plan {
    Sizes sizes{0, 0};
    int entries = 0;  // of the chunk
    Halves halves;    // of the lane's groups, those that stay

    __device__ Plan(const Contents& has, const Halves& all_halves, const Banks& banks) {
        Halves fits = banks.of_bank(all_halves);
        int mine = __popc(has.at_least(3)) + __popc(has.at_least(4));
        int most = -__reduce_min_sync(ALL_LANES, -__popc(fits.first)), least = 0;
        for (int lines = most; lines >= max(0, most - CANDIDATES + 1); lines--) {
            if (__popc(fits.first) > lines) {
                uint32_t last = highest_bit(fits.first), second = fits.second & -last;
                fits.first ^= last, fits.second ^= second;
                mine += 1 + __popc(second);
            }
            int all = __reduce_add_sync(ALL_LANES, mine);
            Sizes these(lines, steps_for(all));
            if (lines < most && cost(these) >= least) continue;
            least = cost(these), sizes = these, entries = all, halves = fits;
        }
        halves = banks.of_lane(halves);
    }
};

// Four counters of 16 bits, one for each column of a group, as what a group adds to them.
__device__ inline uint64_t counters(uint32_t mask) {
    return mask * 0x200040008001ull & 0x1000100010001ull;
}
__device__ inline int counter(uint64_t counters, int i) { return int(counters >> 16 * i & 0xffff); }

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

// Of all lanes that have an even, or odd, t as this one has.
template <class T>
__device__ T sum_of_kind(T value) {
#pragma unroll
    for (int d = 2; d < LANES; d *= 2) value += __shfl_xor_sync(ALL_LANES, value, d);
    return value;
}

// Columns that a full group leaves out, of whose places there are so many entries already.
__device__ inline uint32_t left_out(uint32_t mask, uint64_t counts) {
    uint32_t left = 0;
    for (int n = __popc(mask); n > 2; n--) {
        int fewest = 0, least = 1 << 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((mask & ~left) >> i & 1 && counter(counts, i) < least) least = counter(counts, fewest = i);
        left |= 1u << fewest;
    }
    return left;
}

// Which weights have a half of a word: one or two of a group that stays. Others are entries.
class Slots {
    uint32_t stays_, left_[4] = {};  // bit `order` of left_[i]: column i of that group, since it is full

    // Of weights whose words do not fit.
    __device__ uint64_t counts_of_others(const Contents& has, const Tile& tile) const {
        uint64_t counts = 0;
        for (uint32_t others = has.at_least(1) & ~stays_; others; others &= others - 1)
            counts += counters(mask_of(tile.group(__popc((others & -others) - 1))));
        return sum_of_kind(counts);
    }

  public:
    // Lanes choose one after the other, those with an even t and those with an odd one side by side.
    __device__ Slots(const Contents& has, const Plan& plan, const Tile& tile) : stays_(plan.halves.any()) {
        uint64_t counts = counts_of_others(has, tile);
        for (int turn = 0; turn < LANES / 2; turn++) {
            if (lane_id() / 2 == turn)
                for (uint32_t full = has.at_least(3) & stays_; full; full &= full - 1) {
                    int order = __popc((full & -full) - 1);
                    uint32_t left = left_out(mask_of(tile.group(order)), counts);
                    counts += counters(left);
#pragma unroll
                    for (int i = 0; i < 4; i++) left_[i] |= (left >> i & 1) << order;
                }
            __syncwarp();
            counts = __shfl_sync(ALL_LANES, counts, 2 * turn + lane_id() % 2);
        }
    }

    __device__ bool stays(int order) const { return stays_ >> order & 1; }
    // Columns of a group that become entries.
    __device__ uint32_t left(int order, uint32_t mask) const {
        if (!stays(order)) return mask;
        uint32_t found = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) found |= (left_[i] >> order & 1) << i;
        return found;
    }
};

// Numbers of entries: a place p = column % 8 is 4 * (t % 2) + column of the group; odd ones count from their last.
class Numbers {
    uint64_t next_, count_[2];  // of the lane's next entry; in the chunk, where t is even and odd
    int near_, room_;           // steps; how many of their places turns leave

  public:
    __device__ Numbers(const Tile& tile, const Slots& slots, int near) : near_(near), room_(PLACES * near) {
        uint64_t mine = 0;
        for (int order = 0; order < GROUPS; order++)
            mine += counters(slots.left(order, mask_of(tile.group(order))));
        uint64_t upto = scan_of_kind(mine);
        next_ = upto - mine;
        for (int odd = 0; odd < 2; odd++)
            count_[odd] = __shfl_sync(ALL_LANES, upto, LANES - 2 + odd);
        for (int p = 0; p < PLACES; p++) room_ -= min(count(p), near);
    }
    // Where the lane's next entry of a column of its groups stands among all: a place's first one in step 0, its second
    // one in step 1, and so on; those that find no near step, where one has room, the last one first, or behind.
    __device__ int position(int column) {
        int place = lane_id() % 2 * 4 + column, i = counter(next_, column);
        if (place % 2) i = counter(lane_id() % 2 ? count_[1] : count_[0], column) - 1 - i;
        next_ += 1ull << 16 * column;
        if (i < near_) return PLACES * i + in_step(i, place);
        int others = 0;  // before it
#pragma unroll
        for (int p = 0; p < PLACES; p++) others += max(0, min(count(p), i + (p < place)) - near_);
        return others < room_ ? room(others) : PLACES * near_ + others - room_;
    }

  private:
    __device__ int count(int place) const { return counter(count_[place / 4], place % 4); }
    // The nth place of near steps that turns leave, from the last step on.
    __device__ int room(int nth) const {
        int step = near_ - 1, used = in_step(step, PLACES);
        for (; used + nth >= PLACES; used = in_step(--step, PLACES)) nth -= PLACES - used;
        return PLACES * step + used + nth;
    }
    // Places before this one that have an entry for a step.
    __device__ int in_step(int step, int place) const {
        int found = 0;
#pragma unroll
        for (int p = 0; p < PLACES; p++) found += p < place && count(p) > step;
        return found;
    }
};

}  // namespace
}  // namespace lscd::lane_24
