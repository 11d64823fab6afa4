// Lane 2:4 in strips on the GPU: the size of each chunk, and its bytes, which are those of
// kernels/cpu/encode/lane_24_strips.cpp. A warp has a chunk.
#include "lane_24_strips_entries.cuh"

namespace lscd {
namespace {

using namespace lane_24;

// A chunk as it is written: far steps at once, all else in shared memory.
class Chunk {
    Sizes sizes_;
    Shared<uint4> near_;
    uint4* to_;

    __device__ int near_units() const { return sizes_.far_from() / UNIT; }
    __device__ Shared<uint32_t> words() const { return near_.as<uint32_t>(); }

    __device__ NearSteps near_steps() const { return {sizes_, near_}; }
    __device__ void put_entry(int position, uint32_t value, uint32_t row, uint32_t column) const {
        int step = position / PLACES, place = position % PLACES;
        if (step < NEAR) return near_steps().put(step, place, value, row, column);
        auto* at = reinterpret_cast<uint8_t*>(to_ + near_units()) + STEP * (step - NEAR);
        st_global(reinterpret_cast<uint16_t*>(at + value_at(place)), uint16_t(value));
        st_global(reinterpret_cast<uint16_t*>(at + row_at(place)), uint16_t(row));
        st_global(at + column_at(place), uint8_t(column));
    }
    // Entries that are not in use have the column of their step's first one, or of the first of all. Of far ones only
    // the last step has any.
    __device__ void put_unused(int entries, uint32_t far_column) const {
        auto near = near_steps();
        for (int first = 0; first < PLACES * sizes_.near(); first += LANES) {
            int i = first + lane_id(), step = i / PLACES;
            bool unused = i < PLACES * sizes_.near() && !near.row(step, i % PLACES);
            uint32_t column = unused ? near.first_column(near.row(step, 0) ? step : 0) : 0;
            __syncwarp();  // all have read what a step begins with
            if (unused) put_entry(i, 0, 0, column);
        }
        for (int i = max(entries, PLACES * NEAR) + lane_id(); i < PLACES * sizes_.steps; i += LANES)
            put_entry(i, 0, 0, far_column);
    }

  public:
    // `start`: of the chunk, in units of data.
    __device__ Chunk(const Sizes& sizes, Shared<uint4> near, uint4* data, int start)
        : sizes_(sizes), near_(near), to_(data + start) {
        for (int i = lane_id(); i < near_units(); i += LANES) near_.store(i, uint4{0, 0, 0, 0});
        __syncwarp();
        if (lane_id() == 0) words().store(HEADER / 4 + 1, sizes.far() ? uint32_t(start + near_units()) : 0);
    }

    // Nibbles of two groups, order and order + 1, together with those of the lane's neighbours.
    __device__ void put_nibbles(int order, uint32_t low, uint32_t high) const {
        uint32_t nibbles = (low | high << 16) << nibble_shift();
        nibbles |= __shfl_xor_sync(ALL_LANES, nibbles, 1);
        nibbles |= __shfl_xor_sync(ALL_LANES, nibbles, 2);
        if (lane_id() % 4 == order / 2 % 4) words().store(metadata_word(order), nibbles);
    }
    __device__ void put_halves(const Halves& halves) const {
        uint32_t of_step[2] = {};
        for (int order = 0; order < GROUPS; order++) {
            uint32_t has = halves.of_group(order);
            of_step[order / GROUPS_OF_STEP] |= (has & 1 | has >> 1 << 8) << first_half_shift(order);
        }
        for (int step = 0; step < 2; step++)
            words().store((HALVES + LaneChunk::HALVES_OF_STEP * step) / 4 + lane_id(), of_step[step]);
    }
    __device__ void put_bank(int bank) const {
        near_.as<uint8_t>().store(BANKS + lane_id(), uint8_t(bank));
    }
    __device__ void put_half(int bank, int line, int half, uint32_t value) const {
        int word = (sizes_.lines_at() + LINE * line) / 4 + bank;
        near_.as<uint16_t>().store(2 * word + half, uint16_t(value));
    }
    __device__ void put_entries(const Tile& tile, const Slots& slots, int entries) const {
        Numbers numbers(tile, slots, sizes_.near());
        int last = (entries - 1) / PLACES * PLACES, first_column = 0;
        for (int order = 0; order < GROUPS; order++) {
            uint2 group = tile.group(order);
            for (uint32_t left = slots.left(order, mask_of(group)); left; left &= left - 1) {
                int i = __popc((left & -left) - 1), column = 4 * group_of(order) + i;
                int position = numbers.position(i);
                put_entry(position, weight(group, i), 1u << row_of(order), column);
                if (position == last) first_column = column;
            }
        }
        __syncwarp();
        int fours = near_steps().put_fours();
        if (lane_id() == 0) words().store(HEADER / 4, sizes_.stated(fours));
        __syncwarp();
        first_column = __reduce_add_sync(ALL_LANES, first_column);
        if (entries) put_unused(entries, first_column);
    }
    // Writes what is not written yet.
    __device__ void store() const {
        __syncwarp();
        for (int i = lane_id(); i < near_units(); i += LANES) st_global(to_ + i, near_.load(i));
        int padding = (sizes_.far_from() + STEP * sizes_.far()) / 8 + lane_id();
        if (padding < sizes_.bytes() / 8) st_global(reinterpret_cast<uint2*>(to_) + padding, uint2{0, 0});
    }
};

// Stores the words of the lane's groups, and all nibbles.
class Words {
    const Tile& tile_;
    const Halves& halves_;
    const Slots& slots_;
    const Chunk& chunk_;
    int bank_ = lane_id(), line_ = -1;  // of the last word

    // Returns its nibble.
    __device__ uint32_t put(int order) {
        uint32_t has = halves_.of_group(order);
        if (!has) return ABSENT;
        line_ += has & 1;
        uint2 group = tile_.group(order);
        uint32_t mask = mask_of(group), kept = mask & ~slots_.left(order, mask);
        int first = __popc((kept & -kept) - 1), second = kept & 8 ? 3 : kept & 4 ? 2 : kept & 2 ? 1 : 0;
        if (has & 1) chunk_.put_half(bank_, line_, 0, weight(group, first));
        if (has & 2) chunk_.put_half(bank_, line_, 1, weight(group, second));
        return nibble_of(first, second, has);
    }

  public:
    __device__ Words(const Tile& tile, const Halves& halves, const Slots& slots, const Chunk& chunk)
        : tile_(tile), halves_(halves), slots_(slots), chunk_(chunk) {}
    __device__ void put(const Banks& banks) {
        for (int order = 0; order < GROUPS; order += 2) {
            if (order == GROUPS_OF_STEP) {
                bank_ = banks.second;
                line_ = __shfl_sync(ALL_LANES, line_, bank_);
            }
            uint32_t low = put(order), high = put(order + 1);
            chunk_.put_nibbles(order, low, high);
        }
    }
};

__global__ void __launch_bounds__(LANES)
    size(const __grid_constant__ Grid A, const __grid_constant__ Source dense, int* sizes) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tile tile(memory);
    tile.load(dense, Place(A, blockIdx.x));
    Contents has(tile);
    Halves halves(has);
    Plan plan(has, halves, Banks(halves));
    if (lane_id() == 0) st_global(sizes + blockIdx.x, plan.sizes.bytes() / UNIT);
}

__global__ void __launch_bounds__(LANES)
    pack(const __grid_constant__ Grid A, const __grid_constant__ Source dense,
         const int* chunk_start, uint4* data) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tile tile(memory);
    tile.load(dense, Place(A, blockIdx.x));
    Contents has(tile);
    Halves halves(has);
    Banks banks(halves);
    Plan plan(has, halves, banks);
    Slots slots(has, plan, tile);
    Chunk chunk(plan.sizes, Shared<uint4>(memory) + Tile::BYTES / UNIT, data,
                ld_global(chunk_start + blockIdx.x));
    chunk.put_halves(plan.halves);
    chunk.put_bank(banks.second);
    Words(tile, plan.halves, slots, chunk).put(banks);
    chunk.put_entries(tile, slots, plan.entries);
    chunk.store();
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::lane_24;

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT int lscd_lane_24_strips_size(const uint16_t* dense, int64_t M, int64_t K, int* sizes,
                                         cudaStream_t stream) {
    Grid A(M, K);
    return launch_with(Tile::BYTES, size, A.chunks(), LANES, stream, A, Source(dense, M, K), sizes);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT int lscd_lane_24_strips_pack(const uint16_t* dense, int64_t M, int64_t K,
                                         const int* chunk_start, uint4* data, cudaStream_t stream) {
    Grid A(M, K);
    return launch_with(Tile::BYTES + MOST_NEAR, pack, A.chunks(), LANES, stream, A,
                       Source(dense, M, K), chunk_start, data);
}
