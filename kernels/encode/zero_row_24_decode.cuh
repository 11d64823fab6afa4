// Zero-row 2:4 on the GPU, the way back to a dense matrix: a warp has a chunk in shared memory,
// finds its values as products do (common/zero_row_24_header.cuh, _nested.cuh), and puts them into a dense tile, as
// groups of three columns or one by one.
//
//   a block   warps 0 to 2: copy a regular chunk each,     warp 3: copies their chunk of level 1
//             fill a third of the tile, zeros included
//             ---------------- with level 1: once the tile is filled ------------------
//             a quarter of level 1 each, into the tile
//             ---------------- with level 1: once the tile is whole -------------------
//             store the third
//
// What 64 weights cost an SM of an H200 that moves 18.5 B a clock, issues four instructions, and
// serves one wavefront or shuffle (SASS read; the emulator's count of 256 x 2304 weights):
//
//   sparsity       bytes read, written   in clocks   instructions, a quarter   wavefronts, shuffles
//   .5, level 1         79, 128            11.2               7.7                      8.7
//   .8, pairs           42, 128             9.2               4.6                      5.8
#pragma once
#include "../common/zero_row_24_nested.cuh"
#include "zero_row_24_streams.cuh"

namespace lscd::zero_row_24 {

constexpr int REGULAR_WARPS = 3;
// Quarters of a chunk's parts are numbered: behind those of groups stand those of nested level 1.
template <Kind KIND>
constexpr int LEVEL_Q = KIND == NESTED ? groups_of(KIND) / 4 : 8;

// The groups of a chunk in shared memory: those of its first part, a piece or half of a nested chunk, then those of
// the second one, if it has one.
template <Kind KIND>
class Groups {
    static constexpr int PARTS = KIND == NESTED ? 2 : pieces_of(KIND);
    const Decoder<KIND>& decoder_;
    Address at_;
    int pieces_;
    Header header_;

  public:
    __device__ Groups(Shared<uint4> chunk, const Decoder<KIND>& decoder, int pieces = 1)
        : decoder_(decoder), at_(chunk.address(0)), pieces_(pieces), header_(header<KIND>(at_, decoder)) {}

    // Calls visit(tile, row half, q, values, nibble) for each group of the lane: number
    // 4 q + lane % 4 of row lane / 4 + 8 * row half; for those of level 1, whose q counts from LEVEL_Q,
    // their indices are the steps of the groups that send values.
    template <class Visit>
    __device__ void for_each(Visit visit) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            if (KIND == SIXES && part >= pieces_) return;
            if (part) advance();
#pragma unroll
            for (int q = 0; q < 4; q++) quarter(4 * part + q, visit);
        }
    }
    // From the first part to the second one.
    __device__ void advance() {
        if constexpr (PARTS > 1) read_piece(header_, at_, decoder_, 1);
    }
    // Calls visit(tile, row half, q, index, weight) for each slot in use, of one q of the part.
    template <class Visit>
    __device__ void for_each_weight(int q, Visit visit) const {
        quarter(q, [&](int m, int row_half, int q, uint32_t values, uint32_t nibble) {
            int first = nibble & 3, second = nibble >> 2;
            if (first != 3) visit(m, row_half, q, first, values & 0xffff);
            if (second != 3) visit(m, row_half, q, second, values >> 16);
        });
    }

  private:
    // Without a place in memory for masks, where q is not a constant.
    __device__ uint32_t mask(int q) const {
        const uint32_t(&of)[4] = decoder_.masks;
        q = KIND == SIXES ? q / 4 * 2 + q % 2 : q % 4;
        return q < 2 ? q ? of[1] : of[0] : q == 2 ? of[2] : of[3];
    }
    template <class Visit>
    __device__ void quarter(int q, Visit visit) const {
        const uint32_t* presence = header_.presence;
        int t = lane_id() % 4, from = lane_id() - t + q % 4;
#pragma unroll
        for (int m = 0; m < TILES; m += 2) {
            uint32_t at[4], values[4], nibbles[2];
            bmma_m16n8k128(at, presence[m], presence[m + 1], mask(q), header_.bases[m / 2]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                values[i] = q < LEVEL_Q<KIND> ? gather<KIND>(header_.origin + at[i])
                                              : gather<KIND, true>(header_.origin + at[i]);
#pragma unroll
            for (int i = 0; i < 2; i++)
                nibbles[i] = __shfl_sync(ALL_LANES, header_.metadata[m + i], from) >> 4 * t;
#pragma unroll
            for (int i = 0; i < 4; i++)  // row half i % 2
                visit(m + i / 2, i % 2, q, values[i], nibbles[i / 2] >> i % 2 * 16 & 15);
        }
    }
};

// What three regular chunks of ROWS x COLS side by side stand for, in shared memory. Rows may have
// eight weights more: so they begin on 16 bytes, and banks of one and the next are an odd multiple
// of four apart. What four lanes store into each of eight rows meets nowhere.
template <int ROWS, int COLS>
class DenseTile {
    static constexpr int ROW = REGULAR_WARPS * COLS / 16 * 16 + 8;
    static_assert(ROW >= REGULAR_WARPS * COLS);
    // From a chunk's tile to the next one, which is below it or beside it; columns of level 1 are
    // three apart.
    static constexpr bool BELOW = ROWS > TILE_ROWS;
    static constexpr int TILE = BELOW ? TILE_ROWS * ROW : TILE_COLS;
    static constexpr int LEVEL_TILE = BELOW ? TILE : 3 * TILE;

    Shared<uint16_t> weights_;

  public:
    static constexpr int BYTES = ROWS * ROW * int(sizeof(uint16_t));

    __device__ explicit DenseTile(Shared<uint16_t> weights) : weights_(weights) {}

    __device__ void put(int row, int col, uint32_t weight) const {
        weights_.store(row * ROW + col, uint16_t(weight));
    }
    // The warp's third: groups of a regular chunk, zeros included. Of three columns two stand in a
    // word, and one of them alone. PRMT makes both of the group's two values and zeros; a byte for
    // each column says which of them, looked up by the nibble in the registers of other lanes.
    template <Kind KIND>
    __device__ void fill(Groups<KIND> groups) const {
        int g = lane_id() / 4, t = lane_id() % 4, odd = t % 2;
        int first = g * ROW + warp_id() * COLS + first_column(KIND, t);
        Shared<uint32_t> words = weights_.as<uint32_t>() + (first + odd) / 2;
        Shared<uint16_t> halves = weights_ + (first + 2 - 2 * odd);
        uint32_t table = choices(lane_id() % 16), word_at = 8 * odd, half_at = 16 - 16 * odd;
        groups.for_each([&](int m, int row_half, int q, uint32_t values, uint32_t nibble) {
            int at = m * TILE + row_half * 8 * ROW + first_column(KIND, 4 * (q % LEVEL_Q<KIND>));
            if (q >= LEVEL_Q<KIND>) return put_sent(first + at, values, nibble);
            uint32_t chosen = __shfl_sync(ALL_LANES, table, nibble);
            words.store(at / 2, prmt(values, 0, chosen >> word_at));
            halves.store(at, uint16_t(prmt(values, 0, chosen >> half_at)));
        });
        __syncwarp();
    }
    // The warp's quarter of a chunk of level 1: its column i is the middle one of group i here.
    template <class Groups>
    __device__ void add_level(const Groups& groups) const {
        int first = lane_id() / 4 * ROW + (warp_id() * 4 + lane_id() % 4) * 9 + 1;
        auto put = [&](int m, int row_half, int /*q*/, int index, uint32_t weight) {
            int at = first + m * LEVEL_TILE + row_half * 8 * ROW;
            weights_.store(at + 3 * index, uint16_t(weight));
        };
        groups.for_each_weight(warp_id(), put);
    }
    // The warp's third, whose tiles have so many columns: store8(m, r, col, weights) for eight of row r of the chunk's
    // tile m, or of tiles side by side.
    template <class Store8>
    __device__ void store(int cols, Store8 store8) const {
        const int eights = cols / 8;
        Shared<uint4> third = (weights_ + warp_id() * COLS).template as<uint4>();
#pragma unroll 1
        for (int i = lane_id(); i < TILE_ROWS * eights; i += LANES) {
            int r = i / eights, eight = i % eights;
#pragma unroll
            for (int m = 0; m < TILES; m++)
                store8(m, r, 8 * eight, third.load((m * TILE + r * ROW) / 8 + eight));
        }
    }

  private:
    // Of nested level 1, where the groups that send there have their zeros.
    __device__ void put_sent(int first, uint32_t values, uint32_t nibble) const {
#pragma unroll
        for (int slot = 0; slot < 2; slot++) {
            int step = nibble >> 2 * slot & 3;
            if (step != 3) weights_.store(first + 6 * step + 1, uint16_t(values >> 16 * slot));
        }
    }
    // Selectors of PRMT for the columns of a group, a byte each: of its values' halves, or zeros.
    static __device__ uint32_t choices(int nibble) {
        uint32_t chosen = 0;
        for (int i = 0; i < 3; i++)
            chosen |= (nibble % 4 == i ? 0x10u : nibble / 4 == i ? 0x32u : 0x44u) << 8 * i;
        return chosen;
    }
};

// Of a chunk, by a warp, which has it once it has waited.
__device__ inline void begin_copy(Shared<uint4> to, const Extent& chunk) {
#pragma unroll 4
    for (int i = lane_id(); i < chunk.size / START_BYTES; i += LANES)
        cp_async_16(to, i, chunk.first + START_BYTES * i);
    cp_async_commit();
}
__device__ inline void wait_for_copy() {
    cp_async_wait<0>();
    __syncwarp();
}

// Shared memory of a block: the tile, then a chunk of at most `largest` bytes for each warp.
template <class Tile>
struct Workplace {
    Tile tile;
    Shared<uint4> chunk, level;  // the warp's; that of warp 3
    __device__ Workplace(unsigned char* memory, int largest)
        : tile(Shared<uint16_t>(memory)), chunk(chunk_of(memory, largest, warp_id())),
          level(chunk_of(memory, largest, REGULAR_WARPS)) {}

  private:
    static __device__ Shared<uint4> chunk_of(unsigned char* memory, int largest, int warp) {
        return Shared<uint4>(memory) + (Tile::BYTES + warp * largest) / START_BYTES;
    }
};

// A chunk of level 1 stands for three regular ones; without it their warps have no one to wait for.
__host__ __device__ constexpr int warps_of(int64_t levels) { return REGULAR_WARPS + int(levels); }

__device__ inline void wait_for_warps(int64_t levels) {
    if (levels) __syncthreads();
}

// For any matrix, the kernel may have as much shared memory as the largest chunks take.
template <class Tile, int MOST_BYTES, class... Parameters, class... Arguments>
int launch_decoder(void (*kernel)(Parameters...), int64_t blocks, int64_t levels, int64_t largest,
                   cudaStream_t stream, Arguments... arguments) {
    int most = Tile::BYTES + warps_of(1) * MOST_BYTES, warps = warps_of(levels);
    auto limit = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaError_t error = cudaFuncSetAttribute((const void*)kernel, limit, most);
    if (error) return told(error);
    return launch_with(Tile::BYTES + warps * int(largest), kernel, blocks, warps * LANES, stream,
                       arguments...);
}

}  // namespace lscd::zero_row_24
