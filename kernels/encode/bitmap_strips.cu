// Bitmaps in strips on the GPU: the size of each chunk, and its bytes, which are those of
// kernels/cpu/encode/bitmap_strips.cpp. A warp has a chunk, and each lane its weights in registers.
#include "bitmap_strips.cuh"

namespace lscd {
namespace {

using namespace bitmap;

// That are to be on an SM: their lanes have 128 registers, of which the compiler would use more.
constexpr int BLOCKS = 12;

// The lane's weights, and its bitmap.
struct Weights {
    uint32_t pairs[WORDS][REGISTERS], bits[WORDS];

    // Nobody needs the tile any more afterwards.
    __device__ explicit Weights(const Tile& tile) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            bits[w] = 0;
#pragma unroll
            for (int i = 0; i < REGISTERS; i++) {
                uint32_t pair = pairs[w][i] = tile.pair(w, i), has = nonzero_mask(pair);
                bits[w] |= (has & 1) << bit_of(i, 0) | (has >> 1) << bit_of(i, 1);
            }
        }
        __syncwarp();
    }
    // Of the words of a half.
    __device__ int count(int half) const {
        return __popc(bits[HALF * half]) + __popc(bits[HALF * half + 1]);
    }
};

// How many lanes have a smaller key; no two have the same.
__device__ int rank_of(int key) {
    int found = 0;
#pragma unroll
    for (int i = 0; i < LANES; i++) found += __shfl_sync(ALL_LANES, key, i) < key;
    return found;
}

// The bank of the lane's second half: of a lane that has few values in its first one, if this one has many.
__device__ int bank_of_second(int first, int second) {
    constexpr int MOST = HALF * REGISTERS * 2;
    int of_bank = rank_of(first * LANES + lane_id());
    int of_lane = rank_of((MOST - second) * LANES + lane_id()), bank = 0;
#pragma unroll
    for (int i = 0; i < LANES; i++)
        if (__shfl_sync(ALL_LANES, of_bank, i) == of_lane) bank = i;
    return bank;
}

struct Plan {
    int first, second, bank, lines;

    __device__ explicit Plan(const Weights& weights)
        : first(weights.count(0)), second(weights.count(1)), bank(bank_of_second(first, second)),
          lines(lines_needed(first, second, bank)) {}
    __device__ int units() const { return (LINES + LINE * lines) / UNIT; }
};

// A chunk as it is written, in shared memory.
class Chunk {
    Shared<uint4> bytes_;
    int units_;

  public:
    __device__ Chunk(unsigned char* memory, const Plan& plan) : bytes_(memory), units_(plan.units()) {
        for (int i = BANKS / UNIT + lane_id(); i < units_; i += LANES) bytes_.store(i, uint4{0, 0, 0, 0});
        __syncwarp();
        bytes_.as<uint8_t>().store(BANKS + lane_id(), uint8_t(plan.bank));
    }
    __device__ void put(const Weights& weights, const Plan& plan) const {
        const uint32_t(&bits)[WORDS] = weights.bits;
        bytes_.store(lane_id(), uint4{bits[0], bits[1], bits[2], bits[3]});
        Shared<uint16_t> values = bytes_.as<uint16_t>() + LINES / 2;
        Positions positions(lane_id(), 0);
        int above = __shfl_sync(ALL_LANES, plan.first, plan.bank);
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            if (w == HALF) positions = Positions(plan.bank, above);
#pragma unroll
            for (int i = 0; i < REGISTERS; i++) {
                uint32_t pair = uint32_t(anew(int(weights.pairs[w][i])));  // halves would take more registers
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if (uint32_t weight = half_of(pair, h)) values.store(positions.next(), uint16_t(weight));
            }
        }
    }
    __device__ void store(uint4* to) const {
        __syncwarp();
        for (int i = lane_id(); i < units_; i += LANES) st_global(to + i, bytes_.load(i));
    }
};

__global__ void __launch_bounds__(LANES)
    size(const __grid_constant__ Grid A, const __grid_constant__ Source dense, int* sizes) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tile tile(memory);
    tile.load(dense, Place(A, blockIdx.x));
    Plan plan{Weights(tile)};
    if (lane_id() == 0) st_global(sizes + blockIdx.x, plan.units());
}

__global__ void __launch_bounds__(LANES, BLOCKS)
    pack(const __grid_constant__ Grid A, const __grid_constant__ Source dense,
         const int* chunk_start, uint4* data) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tile tile(memory);
    tile.load(dense, Place(A, blockIdx.x));
    Weights weights(tile);
    Plan plan(weights);
    Chunk chunk(memory, plan);
    chunk.put(weights, plan);
    chunk.store(data + ld_global(chunk_start + blockIdx.x));
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::bitmap;

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT int lscd_bitmap_strips_size(const uint16_t* dense, int64_t M, int64_t K, int* sizes,
                                        cudaStream_t stream) {
    Grid A(M, K);
    return launch_with(Tile::BYTES, size, A.chunks(), LANES, stream, A, Source(dense, M, K), sizes);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT int lscd_bitmap_strips_pack(const uint16_t* dense, int64_t M, int64_t K,
                                        const int* chunk_start, uint4* data, cudaStream_t stream) {
    Grid A(M, K);
    return launch_with(WARP_BYTES, pack, A.chunks(), LANES, stream, A, Source(dense, M, K), chunk_start,
                       data);
}
