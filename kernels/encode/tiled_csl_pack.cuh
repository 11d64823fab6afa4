// How one tile of Tiled-CSL is packed by a block of the GPU, with and without reordering.
//
//   a block: one tile 128x64     a warp: 16 rows of it     a lane: one bank, two weights of each row
//
// Reordering takes words out of the fullest bank again and again. In parallel: a bank with c words
// gives word j when all banks are down to j + 1 words, those with at least so many one after the
// other. So word j of bank b is taken after
//
//   above[j] = sum over banks of max(0, words in the bank - (j + 1))     words at higher levels
//   and one word of each bank before b that has more than j              at its own level
//
// and no word waits for another. Shared memory holds the words in the order in which they are taken;
// written out, each lane's vector gathers its four steps.
#pragma once
#include "weights.cuh"

namespace lscd {
namespace {

constexpr int ROWS = 128, COLS = 64, PLACES = ROWS * COLS, VECTOR = 4;
constexpr int BANKS = 32, BANK_PLACES = PLACES / BANKS;
constexpr int WARPS = 8, WARP_ROWS = ROWS / WARPS, WARP_BANK_PLACES = 2 * WARP_ROWS;
constexpr int THREADS = WARPS * LANES;

static_assert(BANKS == LANES, "a lane holds the weights of one bank");
static_assert(THREADS == BANK_PLACES, "a thread makes one entry of the levels");

int64_t tiles_of(int64_t M, int64_t K) { return ceil_div(M, ROWS) * ceil_div(K, COLS); }

// Where a tile lies in a [M, K] matrix.
struct Frame {
    int64_t row, col;
    __device__ explicit Frame(int64_t K, int64_t tile = blockIdx.x)
        : row(tile / ceil_div(K, COLS) * ROWS), col(tile % ceil_div(K, COLS) * COLS) {}
};

__device__ uint32_t word_of(int location, uint32_t value) { return uint32_t(location) << 16 | value; }

// Sum over the block, for all of its threads; a barrier.
__device__ int block_sum(int value, Shared<int> of_warp) {
    value = __reduce_add_sync(ALL_LANES, value);
    if (lane_id() == 0) of_warp.store(warp_id(), value);
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += of_warp.load(w);
    return sum;
}

// Words and free places of one bank in the 16 rows of a warp.
struct Bank {
    uint32_t pairs[WARP_ROWS];

    __device__ explicit Bank(const Source& dense) {
        Frame at(dense.K);
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++)
            pairs[i] = dense.load2(at.row + row(i), at.col + (2 * lane_id() ^ 8 * (i % 8)));
    }
    __device__ static int row(int i) { return warp_id() * WARP_ROWS + i; }
    __device__ static int location(int i, int half) { return row(i) * COLS + 2 * lane_id() + half; }

    __device__ int words() const {
        int sum = 0;
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++) sum += __popc(nonzero_mask(pairs[i]));
        return sum;
    }
    // Location of free place n.
    __device__ int free_place(int n) const {
        int found = 0;
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (!half_of(pairs[i], half) && n-- == 0) found = location(i, half);
        return found;
    }
};

struct Memory {
    uint4 taken[PLACES / VECTOR];  // the tile's words, in the order that they are taken in
    int counts[WARPS * BANKS];
    int in_bank[BANKS], pad_location[VECTOR], pad_number[VECTOR];
    int above[BANK_PLACES];
    uint32_t has[BANK_PLACES];
};

// How one tile is packed, by the 256 threads of a block.
struct Packer {
    Memory& memory;
    Bank bank;
    int before = 0;   // words of the lane's bank in earlier warps
    int in_bank = 0;  // words of the lane's bank, padding included once `pad` has run
    int words, pads;  // of the tile

    __device__ Packer(const Source& dense, Memory& memory) : memory(memory), bank(dense) {
        Shared<int> counts(memory.counts);
        counts.store(threadIdx.x, bank.words());
        __syncthreads();
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            int count = counts.load(w * BANKS + lane_id());
            if (w < warp_id()) before += count;
            in_bank += count;
        }
        words = __reduce_add_sync(ALL_LANES, in_bank);
        pads = -words & (VECTOR - 1);
    }

    // Words of value 0, each in the bank with the fewest words (ties: the lowest), at that bank's
    // first free place. Every warp follows all of them; the one with the place notes it.
    __device__ void pad() {
        Shared<int> pad_location(memory.pad_location), pad_number(memory.pad_number);
        int own = bank.words(), free_before = warp_id() * WARP_BANK_PLACES - before;
        int nth = -free_before;  // of the free places here
        for (int k = 0; k < pads; k++) {
            uint32_t fewest = __reduce_min_sync(ALL_LANES, uint32_t(in_bank * BANKS + lane_id()));
            if (int(fewest) % BANKS != lane_id()) continue;
            if (0 <= nth && nth < WARP_BANK_PLACES - own) {
                pad_location.store(k, bank.free_place(nth));
                pad_number.store(k, in_bank);
            }
            in_bank++, nth++;
        }
        if (warp_id() == 0) Shared<int>(memory.in_bank).store(lane_id(), in_bank);
        __syncthreads();
    }

    // above and has, of level threadIdx.x.
    __device__ void count_levels() {
        Shared<int> in_bank(memory.in_bank);
        int level = threadIdx.x, above = 0;
        uint32_t has = 0;
#pragma unroll
        for (int b = 0; b < BANKS; b++) {
            int more = in_bank.load(b) - level;
            if (more > 0) has |= 1u << b, above += more - 1;
        }
        Shared<int>(memory.above).store(level, above);
        Shared<uint32_t>(memory.has).store(level, has);
        __syncthreads();
    }

    // When word j of a bank is taken.
    __device__ int turn(int bank, int j) const {
        uint32_t earlier = Shared<uint32_t>(memory.has).load(j) & ((1u << bank) - 1);
        return Shared<int>(memory.above).load(j) + __popc(earlier);
    }

    __device__ void take_by_turns() {
        Shared<uint32_t> taken(memory.taken);
        int j = before;
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (uint32_t value = half_of(bank.pairs[i], half))
                    taken.store(turn(lane_id(), j++), word_of(Bank::location(i, half), value));
        int k = threadIdx.x;
        if (k >= pads) return;
        int location = Shared<int>(memory.pad_location).load(k);
        int number = Shared<int>(memory.pad_number).load(k);
        taken.store(turn(location / 2 % BANKS, number), word_of(location, 0));
    }

    // Row by row instead, each from left to right.
    __device__ void take_in_order() {
        Shared<uint32_t> taken(memory.taken);
        int at = __reduce_add_sync(ALL_LANES, before);
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++) {
            // Columns 2 lane and 2 lane + 1, from the lane whose bank they lie in.
            uint32_t pair = __shfl_sync(ALL_LANES, bank.pairs[i], lane_id() ^ 4 * (i % 8));
            unsigned left = __ballot_sync(ALL_LANES, half_of(pair, 0));
            unsigned right = __ballot_sync(ALL_LANES, half_of(pair, 1));
            int turn = at + __popc(left & lanes_below()) + __popc(right & lanes_below());
            int location = Bank::row(i) * COLS + (2 * lane_id() ^ 8 * (i % 8));
            if (uint32_t value = half_of(pair, 0)) taken.store(turn++, word_of(location, value));
            if (uint32_t value = half_of(pair, 1)) taken.store(turn, word_of(location + 1, value));
            at += __popc(left) + __popc(right);
        }
        int k = threadIdx.x;
        if (k < pads) taken.store(words + k, word_of(Shared<int>(memory.pad_location).load(k), 0));
    }

    // Vector v of the tile: the words that a lane stores in its four steps. The tail is taken first.
    __device__ uint4 reordered(int v) const {
        Shared<uint32_t> taken(memory.taken);
        int vectors = (words + pads) / VECTOR, tail = vectors % LANES;
        bool in_round = v < vectors - tail;
        int step = in_round ? LANES : tail;
        int at = v % LANES + (in_round ? VECTOR * (tail + v / LANES * LANES) : 0);
        return make_uint4(taken.load(at), taken.load(at + step), taken.load(at + 2 * step),
                          taken.load(at + 3 * step));
    }
};

}  // namespace
}  // namespace lscd
