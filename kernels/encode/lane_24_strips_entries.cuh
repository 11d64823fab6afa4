// Lane 2:4 in strips on the GPU: entries of a chunk, and fours of steps, which a warp puts in the order of their rows.
#pragma once
#include "lane_24_strips_plan.cuh"

namespace lscd::lane_24 {
namespace {

// Steps that stand in front of lines, while the chunk is in shared memory.
class NearSteps {
    Sizes sizes_;
    Shared<uint4> chunk_;

    // A lane's entry of a four: one of each step for eight lanes.
    struct InFour {
        uint32_t value, row, column;
        int step, place;  // of the chunk; where it goes
    };

    __device__ Shared<uint16_t> halves() const { return chunk_.as<uint16_t>(); }
    __device__ Shared<uint8_t> bytes() const { return chunk_.as<uint8_t>(); }
    __device__ static int first_of_step() { return lane_id() / PLACES * PLACES; }

    // Where it stands. By rows, of equal ones in the order in which they stood; who is not in use comes last.
    __device__ InFour in_four(int four) const {
        int step = sizes_.single() + FOUR * four + lane_id() / PLACES, at = near_at(step), own = lane_id() % PLACES;
        uint32_t row = this->row(step, own), key = (row - 1 & 0xffff) * PLACES + own, before = 0;
        for (int i = 0; i < PLACES; i++) before += __shfl_sync(ALL_LANES, key, first_of_step() + i) < key;
        uint32_t value = halves().load((at + value_at(own)) / 2);
        return {value, row, bytes().load(at + column_at(own)), step, place_in_four(int(before))};
    }
    // Whether each row has one entry of a half of nibbles at most.
    __device__ static bool is_sound(const InFour& entry) {
        bool meets = false;
        for (int i = 0; i < PLACES; i++) {
            uint32_t row = __shfl_sync(ALL_LANES, entry.row, first_of_step() + i);
            int place = __shfl_sync(ALL_LANES, entry.place, first_of_step() + i);
            meets |= place == (entry.place ^ 2) && row & entry.row;
        }
        return !__any_sync(ALL_LANES, meets);
    }
    __device__ void put_metadata(int four, const InFour& entry) const {
        int number = first_of_step() + entry.place;
        for (int g = 0; g < WORDS_OF_FOUR; g++) {
            uint32_t word = __reduce_or_sync(ALL_LANES, metadata_of(number, entry.row, g));
            int at = sizes_.fours_at() + FOUR_BYTES * four + 4 * g;
            if (lane_id() == g) chunk_.as<uint32_t>().store(at / 4, word);
        }
    }

  public:
    __device__ NearSteps(const Sizes& sizes, Shared<uint4> chunk) : sizes_(sizes), chunk_(chunk) {}

    __device__ void put(int step, int place, uint32_t value, uint32_t row, uint32_t column) const {
        int at = near_at(step);
        halves().store((at + value_at(place)) / 2, uint16_t(value));
        halves().store((at + row_at(place)) / 2, uint16_t(row));
        bytes().store(at + column_at(place), uint8_t(column));
    }
    // 0: not in use.
    __device__ uint32_t row(int step, int place) const { return halves().load((near_at(step) + row_at(place)) / 2); }
    __device__ uint32_t first_column(int step) const { return bytes().load(near_at(step) + column_at(0)); }

    // Returns how many there are: all that there is room for, or none.
    __device__ int put_fours() const {
        bool sound = true;
        for (int four = 0; four < sizes_.fours(); four++) sound &= is_sound(in_four(four));
        if (!sound) return 0;
        for (int four = 0; four < sizes_.fours(); four++) {
            InFour entry = in_four(four);
            __syncwarp();  // all have read theirs
            put(entry.step, entry.place, entry.value, entry.row, entry.column);
            put_metadata(four, entry);
        }
        return sizes_.fours();
    }
};

}  // namespace
}  // namespace lscd::lane_24
