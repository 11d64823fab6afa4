// Lane 2:4 in strips on the GPU, back to a dense matrix: a warp copies a chunk into shared memory,
// fills a dense tile with the groups of its lanes, zeros included, puts entries into it, and stores
// its rows. Warps have nothing to do with each other; many are on an SM, and hide what one waits for.
//
// What a chunk costs an SM of an H200 that moves 18.5 B a clock, issues four instructions, and serves
// one wavefront or shuffle (instructions and wavefronts of version 2 of the format, which had no banks:
// SASS read; the emulator's count of 256 x 2560 weights at random):
//
//   sparsity   bytes read, written   in clocks   instructions, a quarter   wavefronts, shuffles
//     .5           6631, 8192           801                255                     312
//     .8           2975, 8192           604                217                     264
#include "lane_24_strips.cuh"

namespace lscd {
namespace {

using namespace lane_24;

constexpr int WARPS = 2;
constexpr int WARP_BYTES = Tile::BYTES + MOST_NEAR;

__device__ uint32_t word_of(const uint4& four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// A chunk whose far steps are where they were, and whose other parts are in shared memory.
class Chunk {
    Shared<uint4> near_;
    const uint4* data_;

    __device__ uint32_t word(int i) const { return near_.as<uint32_t>().load(i); }

    // load(i): words of steps, of which there are four with two values, each before one with their rows,
    // and two with four columns. Of a damaged chunk, which stores a weight twice, any
    // may be the last: whoever checks it finds one less than were stored.
    template <class Load>
    static __device__ void put_entries(const Tile& tile, int steps, Load load) {
        constexpr int PAIRS = PLACES / 2;
#pragma unroll 2
        for (int i = lane_id(); i < PAIRS * steps; i += LANES) {
            int step = i / PAIRS * (STEP / 4), pair = i % PAIRS;
            uint32_t values = load(step + value_at(2 * pair) / 4), rows = load(step + row_at(2 * pair) / 4);
            uint32_t columns = load(step + column_at(2 * pair) / 4) >> pair % 2 * 16;
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (uint32_t row = half_of(rows, j))
                    tile.put(__popc(row - 1), columns >> 8 * j & 255, half_of(values, j));
        }
    }

  public:
    // Begins the copy. It may have some of the far steps: where they begin is not known yet.
    __device__ Chunk(Shared<uint4> near, const uint4* data, const int* chunk_start, int64_t chunk)
        : near_(near), data_(data) {
        int start = ld_global(chunk_start + chunk), units = ld_global(chunk_start + chunk + 1) - start;
#pragma unroll
        for (int i = lane_id(); i < MOST_NEAR / UNIT; i += LANES)
            if (i < units) cp_async_16(near, i, data + start + i);
        cp_async_commit();
    }

    // Groups of the lane into the tile, a quarter of them at a time. Which halves of a word go where
    // is looked up by its nibble in the registers of other lanes.
    __device__ void put_groups(const Tile& tile) const {
        constexpr int QUARTER = GROUPS / 4;
        uint32_t table = group_selectors(lane_id() % 16);
        int line = int(word(HEADER / 4) & 0xffff) / 4 - LINE / 4 + lane_id();  // above the first one
        int bank = near_.as<uint8_t>().load(BANKS + lane_id());
#pragma unroll
        for (int first = 0; first < GROUPS; first += QUARTER) {
            uint32_t words[QUARTER];
            int step = first / GROUPS_OF_STEP;
            uint32_t halves = word((HALVES + LaneChunk::HALVES_OF_STEP * step) / 4 + lane_id());
            if (first == GROUPS_OF_STEP) line = __shfl_sync(ALL_LANES, line, bank);
#pragma unroll
            for (int i = 0; i < QUARTER; i++) {
                if (halves >> first_half_shift(first + i) & 1) line += LINE / 4;
                words[i] = word(line);
            }
            put_quarter(tile, first, words, table);
        }
    }
    __device__ void put_entries(const Tile& tile) const {
        uint32_t stated = word(HEADER / 4) >> 16;
        put_entries(tile, LaneChunk::near_steps(stated), [&](int i) { return word(STEPS / 4 + i); });
        const uint4* far = data_ + word(HEADER / 4 + 1);
        put_entries(tile, LaneChunk::far_steps(stated),
                    [&](int i) { return __ldg(reinterpret_cast<const uint32_t*>(far) + i); });
    }

  private:
    template <int COUNT>
    __device__ void put_quarter(const Tile& tile, int first, const uint32_t (&words)[COUNT],
                                uint32_t table) const {
        uint4 nibbles[2];  // of both halves
#pragma unroll
        for (int half = 0; half < 2; half++)
            nibbles[half] = near_.load(metadata_word(first + 2 * half) / 4);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int order = first + i, shift = nibble_shift() + 16 * (order & 1);
            uint32_t nibble = word_of(nibbles[order >> 1 & 1], order >> 2 & 3) >> shift & 15;
            uint32_t chosen = __shfl_sync(ALL_LANES, table, int(nibble));
            tile.put_group(order, {prmt(words[i], 0, chosen), prmt(words[i], 0, chosen >> 16)});
        }
    }
};

__global__ void __launch_bounds__(WARPS * LANES)
    unpack(const __grid_constant__ Grid A, int64_t chunks, const uint4* data, const int* chunk_start,
           Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    int64_t number = int64_t(blockIdx.x) * WARPS + warp_id();
    if (number >= chunks) return;
    unsigned char* mine = memory + warp_id() * WARP_BYTES;
    Tile tile(mine);
    Chunk chunk(Shared<uint4>(mine) + Tile::BYTES / UNIT, data, chunk_start, number);
    cp_async_wait<0>();
    __syncwarp();
    chunk.put_groups(tile);
    __syncwarp();
    chunk.put_entries(tile);
    __syncwarp();
    tile.store(dense, Place(A, number));
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::lane_24;

// Writes dense [M, K], zeros included: a matrix, or whole 64 rows of one, whose first chunk is that
// of chunk_start[0].
LSCD_EXPORT int lscd_lane_24_strips_unpack(const uint4* data, const int* chunk_start, int64_t M,
                                           int64_t K, uint16_t* dense, cudaStream_t stream) {
    return launch_unpack<WARPS>(unpack, WARP_BYTES, data, chunk_start, M, K, dense, stream);
}
