// A warp that decodes a strip of lane_24_strips: a chunk of 16 x 256 becomes four parts of dense tiles, 16 x 64
// each, zeros included, here and in the other thread block of the pair.
//
//   ld_sparse   a ring of chunks, refilled by bulk copies
//   extract     groups of four columns of a quarter: a lane has eight, four of either step of wgmma.sp
//               a word, and where its two weights stand -> two registers, by a table of selectors
//   entries     of the quarter: each lane has two of the near ones in registers, others are read again
#pragma once
#include "../common/lane_24.cuh"
#include "../common/stages.cuh"
#include "hopper_tiles.cuh"

namespace lscd {
namespace {

// A weight that is in no group: its part of a round, and where that has it.
struct LoneWeight {
    uint32_t value, place;
    static constexpr uint32_t NONE = ~0u;

    __device__ static LoneWeight none() { return {0, NONE}; }
    __device__ LoneWeight(uint32_t value, uint32_t place) : value(value), place(place) {}
    // `row`: one bit of 16, none where it is not in use.
    __device__ static LoneWeight of(uint32_t value, uint32_t row, uint32_t column) {
        uint32_t r = __popc(row - 1), at = r * 128 + ((column / 8 % 8 ^ r % 8) << 4) + column % 8 * 2;
        return row ? LoneWeight(value, column / STEP_COLS << 16 | at) : none();
    }
    __device__ void store(int quarter, Address to) const {
        if (place >> 16 == uint32_t(quarter)) st_shared_u16(to + (place & 0xffff), value);
    }
};

struct StripDecoder : LaneChunk {
    static constexpr int ROWS_AT = 16, COLUMNS_AT = 32, PLACES = 8, NEAR_OF_LANE = 2;  // of a step of entries
    static_assert(NEAR_STEPS * PLACES <= NEAR_OF_LANE * 32);

    const WgmmaProblem& p;
    uint32_t rank = rank_in_cluster();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Address memory, ring;
    uint32_t selectors = group_selectors(uint32_t(lane % 16));
    // Steps of wgmma.sp, whose groups a lane stores one after the other: every second row begins with the second
    // one, so that what half a warp stores at once lies in different banks.
    int swapped = lane / 4 % 2;
    Address places[4];  // of the lane's groups in a quarter's strip: by step and half, of its first row

    __device__ StripDecoder(const WgmmaProblem& p, Address memory, int chunks_at)
        : p(p), memory(memory), ring(memory + chunks_at + warp * CHUNKS_UNDER_WAY * p.stage_bytes) {
        int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
            places[i] = g * 128 + ((2 * (i ^ 2 * swapped) + t / 2) ^ g) * 16 + t % 2 * 8;
    }

    __device__ int strip() const { return rank * OWN_STRIPS + warp; }
    __device__ Address is_there(uint32_t place) const {
        return memory + CHUNK_IS_THERE + (warp * CHUNKS_UNDER_WAY + place) * 8;
    }
    __device__ void make_barriers() const {
        if (lane == 0)
            for (int i = 0; i < CHUNKS_UNDER_WAY; i++) mbarrier_init(is_there(i), 1);
    }

    // --- ld_sparse ---

    // The last row block may be without this strip.
    __device__ bool exists(const Rounds& at) const { return at.row_block * PAIR_STRIPS + strip() < p.strips; }
    // The next chunk to this place of the ring, all but far steps.
    __device__ void fetch(Rounds& next, uint32_t place) const {
        if (!next.more()) return;
        if (exists(next)) {
            int64_t strip = int64_t(next.row_block) * PAIR_STRIPS + this->strip();
            const int32_t* start = p.chunk_start() + strip * p.rounds + next.round;
            int first = __ldg(start), bytes = min((__ldg(start + 1) - first) * 16, p.stage_bytes);
            warp_bulk_copy(ring + place * p.stage_bytes, p.data() + int64_t(first) * 16, bytes,
                           is_there(place), evict_first());
        }
        next.next();
    }

    // --- a chunk ---

    struct Chunk {
        // In the lane's order of steps: 16 bits each; its first words; by step and half, of each quarter and of
        // both halves of rows, where weights stand.
        uint32_t present = 0;
        Address words[2] = {};
        uint4 nibbles[4] = {};
        uint32_t far = 0, far_at = 0;
        LoneWeight near[NEAR_OF_LANE] = {LoneWeight::none(), LoneWeight::none()};
    };
    __device__ Chunk open(Address at) const {
        Chunk c;
        uint32_t stated = ld_shared(at + HEADER), steps = stated >> 16;
        uint32_t present = ld_shared(at + PRESENT + lane * 4);
        c.present = swapped ? present >> 16 | present << 16 : present;
        Address words = at + (stated & 0xffff) + lane * 4;
        Address second = words + (__popc(present & 0xffff) << LINE_SHIFT);
        c.words[0] = swapped ? second : words, c.words[1] = swapped ? words : second;
        c.far = max(int(steps) - NEAR_STEPS, 0), c.far_at = ld_shared(at + FAR_AT);
#pragma unroll
        for (int i = 0; i < 4; i++) c.nibbles[i] = ld_shared_v4(at + lane / 4 * 64 + (i ^ 2 * swapped) * 16);
#pragma unroll
        for (int i = 0; i < NEAR_OF_LANE; i++) {
            uint32_t number = lane + 32 * i, from = at + ENTRIES + number / PLACES * STEP_BYTES + number % PLACES * 2;
            if (number < (steps - c.far) * PLACES)
                c.near[i] = LoneWeight::of(ld_shared_u16(from), ld_shared_u16(from + ROWS_AT),
                                           ld_shared_u16(from + COLUMNS_AT));
        }
        return c;
    }

    // extract: 16 x 64 weights, 2048 bytes, to an address.
    template <int QUARTER>
    __device__ __forceinline__ void extract(const Chunk& c, Address to) const {
#pragma unroll
        for (int step = 0; step < 2; step++) {
            constexpr int GROUPS = 4;  // of the lane: halves of columns, halves of rows
            int first = 16 * step + 4 * QUARTER;
            uint32_t before = c.present & ((1u << 4 * QUARTER) - 1) << 16 * step;
            Address next = c.words[step] + (__popc(before) << LINE_SHIFT);
            uint32_t words[GROUPS];
#pragma unroll
            for (int i = 0; i < GROUPS; i++) {
                uint32_t own = one_bit(c.present, first + i);
                words[i] = ld_shared_if(own, next);
                next = add_bit<LINE_SHIFT>(next, own, first + i);
            }
#pragma unroll
            for (int i = 0; i < GROUPS; i++) {
                int half = i / 2, row_half = i % 2;
                const uint4& four = c.nibbles[2 * step + half];
                uint32_t of_lanes = QUARTER == 0 ? four.x : QUARTER == 1 ? four.y : QUARTER == 2 ? four.z : four.w;
                // A shuffle reads the lower five bits of a lane's number, and all tables are there twice.
                int nibble = of_lanes >> (lane % 4 * 4 + row_half * 16) & 31;
                uint32_t chosen = __shfl_sync(~0u, selectors, nibble);
                st_shared_v2(to + places[2 * step + half] + row_half * 1024,
                             {prmt(words[i], 0, chosen), prmt(words[i], 0, chosen >> 16)});
            }
        }
        __syncwarp();
        put_entries(c, QUARTER, to);
    }
    __device__ __forceinline__ void put_entries(const Chunk& c, int quarter, Address to) const {
#pragma unroll
        for (int i = 0; i < NEAR_OF_LANE; i++) c.near[i].store(quarter, to);
        if (!uniform(c.far)) return;
        const uint8_t* far = p.data() + int64_t(c.far_at) * 16;
#pragma unroll 1
        for (uint32_t i = lane; i < c.far * PLACES; i += 32) {
            auto* at = reinterpret_cast<const uint16_t*>(far + i / PLACES * STEP_BYTES) + i % PLACES;
            LoneWeight::of(__ldg(at), __ldg(at + ROWS_AT / 2), __ldg(at + COLUMNS_AT / 2)).store(quarter, to);
        }
    }

    // --- tiles ---

    // A quarter, in this block's tile and in the other's, once both have a place for it.
    template <int QUARTER>
    __device__ __forceinline__ void decode(const Chunk& c, Step& step) const {
        Address to = step.tile(memory) + strip() * STRIP_BYTES, there = memory + A_IS_THERE + 8 * step.place();
        mbarrier_wait(memory + A_IS_FREE + 8 * step.place(), step.parity() ^ 1);
        if (!left_out(Stage::extract)) extract<QUARTER>(c, to);
        async_proxy_fence();
        __syncwarp();
        warp_bulk_copy_at(at_rank(to, rank ^ 1), to, STRIP_BYTES, at_rank(there, rank ^ 1));
        if (lane == 0) mbarrier_arrive_expect(there, STRIP_BYTES);  // as many come from there
        step.number++;
    }

    __device__ void run() const {
        Rounds now(p), next(p);
        for (uint32_t i = 0; i < CHUNKS_UNDER_WAY; i++) fetch(next, i);
        uint32_t place = 0, parity = 0;
#pragma unroll 1
        for (Step step; now.more(); now.next()) {
            Chunk c;
            if (exists(now)) {
                mbarrier_wait(is_there(place), parity >> place & 1);
                c = open(ring + place * p.stage_bytes);
                parity ^= 1 << place;
            }
            decode<0>(c, step), decode<1>(c, step), decode<2>(c, step), decode<3>(c, step);
            fetch(next, place);  // behind the last quarter's meetings all have read the chunk
            place ^= 1;
        }
    }
};

}  // namespace
}  // namespace lscd
