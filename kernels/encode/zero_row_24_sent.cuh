// Which middle weights go to level 1 from streams of pairs: see kernels/cpu/encode/zero_row_24_sent.h.
#pragma once
#include "zero_row_24_tile.cuh"

namespace lscd::zero_row_24 {

// Of a position in a stream: low bits for the groups of row g, high ones for those of row g + 8.
__device__ inline int sent_bit(int row, int group) { return row / TILE_STREAMS * GROUPS + group; }

// The lane's stream, group by group, in its order.
class Sender {
    int phase_, spare_ = -1;  // a middle weight that makes lone ones even: one of them, or of two values before
    bool waiting_ = false;    // a lone value for a partner

  public:
    uint32_t sent;

    __device__ Sender(uint32_t full, int phase) : phase_(phase), sent(full) {}
    __device__ void lone(int bit, bool middle) {
        if (spare_ < 0 && middle && has_slot(bit)) spare_ = bit;
        waiting_ = !waiting_;
    }
    __device__ void two(int bit, bool middle) {
        if (waiting_ && middle && has_slot(bit)) {
            sent |= 1u << bit, waiting_ = false;
            return;
        }
        finish();
        waiting_ = false, spare_ = middle && has_slot(bit) ? bit : -1;
    }
    __device__ void finish() {
        if (waiting_ && spare_ >= 0 && has_slot(spare_)) sent |= 1u << spare_;
    }

  private:
    __device__ bool has_slot(int bit) const {
        int group = bit % GROUPS, first = group - (group + phase_) % 3;
        if (first < 0 || first + 3 > GROUPS) return false;
        return __popc(sent >> (bit - group + first) & 7) < 2;
    }
};

__device__ inline uint32_t sent_of(const Tiles& tiles, int phase) {
    int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
    uint32_t present[3] = {};  // weights of groups
    for (int order = 0; order < ORDERS; order++) {
        int row = row_of(g, order), group = group_of(order);
#pragma unroll
        for (int i = 0; i < 3; i++)
            present[i] |= uint32_t(tiles.at(m * TILE_ROWS + row, 3 * group + i) != 0) << sent_bit(row, group);
    }
    Sender sender(present[0] & present[1] & present[2], phase);
    for (int order = 0; order < ORDERS; order++) {
        int bit = sent_bit(row_of(g, order), group_of(order)), count = 0;
#pragma unroll
        for (int i = 0; i < 3; i++) count += present[i] >> bit & 1;
        bool middle = count < 3 && present[1] >> bit & 1;
        if (count == 1) sender.lone(bit, middle);
        if (count > 1) sender.two(bit, middle);
    }
    sender.finish();
    return sender.sent;
}

// A word for each stream of each regular chunk.
struct Sent {
    uint32_t* words;

    // Finds out what the lane's stream of a chunk sends.
    __device__ void find(const Tiles& tiles, int64_t chunk, int phase) const {
        st_global(words + chunk * LANES + lane_id(), sent_of(tiles, phase));
    }
    // Takes it from there.
    __device__ void take(const Tiles& tiles, int64_t chunk) const {
        uint32_t mine = ld_global(words + chunk * LANES + lane_id());
        int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
#pragma unroll
        for (int bit = 0; bit < ORDERS; bit++)
            if (mine >> bit & 1) tiles.put(m * TILE_ROWS + bit / GROUPS * TILE_STREAMS + g, bit % GROUPS * 3 + 1, 0);
        __syncwarp();
    }
    // Whether row r of tile m sends the middle weight of a group.
    __device__ bool from(int64_t chunk, int m, int r, int group) const {
        uint32_t word = ld_global(words + chunk * LANES + m * TILE_STREAMS + r % TILE_STREAMS);
        return word >> sent_bit(r, group) & 1;
    }
};

}  // namespace lscd::zero_row_24
