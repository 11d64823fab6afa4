// Chunks whose lanes have banks on the GPU: the size of each chunk, and its bytes, which are those of
// kernels/cpu/encode/banks_pack.h. A warp has a chunk, and each lane its weights in registers.
#pragma once
#include "banks.cuh"

namespace lscd {
namespace {

using namespace banks;

// That are to be on an SM: so many leave a lane 168 registers, of which it needs fewer.
constexpr int BLOCKS = 12;

// The lane's weights, and where it has some.
template <class Layout>
struct Weights {
    uint32_t pairs[WORDS][REGISTERS];
    typename Layout::Places places;

    // Nobody needs the tile any more afterwards.
    __device__ explicit Weights(const Tile& tile) {
#pragma unroll
        for (int w = 0; w < WORDS; w++)
#pragma unroll
            for (int i = 0; i < REGISTERS; i++) {
                uint32_t pair = pairs[w][i] = tile.pair(w, i);
                places.put(w, i, nonzero_mask(pair));
            }
        __syncwarp();
    }
};

// How many lanes have a smaller key; no two have the same.
__device__ int rank_of(int key) {
    int found = 0;
#pragma unroll
    for (int i = 0; i < LANES; i++) found += __shfl_sync(ALL_LANES, key, i) < key;
    return found;
}

// The bank of the lane's second half: of a lane whose first one ends early, if this one takes many positions.
__device__ int bank_of_second(int first, int second) {
    int of_bank = rank_of(first * LANES + lane_id());
    int of_lane = rank_of((ORDERS - second) * LANES + lane_id()), bank = 0;
#pragma unroll
    for (int i = 0; i < LANES; i++)
        if (__shfl_sync(ALL_LANES, of_bank, i) == of_lane) bank = i;
    return bank;
}

template <class Layout>
struct Plan {
    int first, second, bank, lines;  // where the first half ends; positions of the second one

    __device__ explicit Plan(const Weights<Layout>& weights)
        : first(end_of_first<Layout>(weights.places)), second(weights.places.positions(1)),
          bank(bank_of_second(first, second)), lines(lines_needed(first, second, bank)) {}
    __device__ int units() const { return (Layout::LINES + LINE * lines) / UNIT; }
};

// A chunk as it is written, in shared memory.
template <class Layout>
class Chunk {
    Shared<uint4> bytes_;
    int units_;

  public:
    __device__ Chunk(unsigned char* memory, const Plan<Layout>& plan) : bytes_(memory), units_(plan.units()) {
        for (int i = Layout::BANKS / UNIT + lane_id(); i < units_; i += LANES) bytes_.store(i, uint4{0, 0, 0, 0});
        __syncwarp();
        bytes_.as<uint8_t>().store(Layout::BANKS + lane_id(), uint8_t(plan.bank));
    }
    __device__ void put(const Weights<Layout>& weights, const Plan<Layout>& plan) const {
        using Writer = typename Layout::Writer;
        weights.places.store(bytes_);
        Writer writer(bytes_, lane_id(), Layout::begin(lane_id()));
        int above = __shfl_sync(ALL_LANES, plan.first, plan.bank);
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            if (w == HALF) writer = Writer(bytes_, plan.bank, above);
#pragma unroll
            for (int i = 0; i < REGISTERS; i++)
                writer.put(uint32_t(anew(int(weights.pairs[w][i]))));  // halves would take more registers
        }
    }
    __device__ void store(uint4* to) const {
        __syncwarp();
        for (int i = lane_id(); i < units_; i += LANES) st_global(to + i, bytes_.load(i));
    }
};

template <class Layout>
__global__ void __launch_bounds__(LANES)
    size(const __grid_constant__ Grid A, const __grid_constant__ Source dense, int* sizes) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tile tile(memory);
    tile.load(dense, Place(A, blockIdx.x));
    Plan<Layout> plan{Weights<Layout>(tile)};
    if (lane_id() == 0) st_global(sizes + blockIdx.x, plan.units());
}

template <class Layout>
__global__ void __launch_bounds__(LANES, BLOCKS)
    pack(const __grid_constant__ Grid A, const __grid_constant__ Source dense,
         const int* chunk_start, uint4* data) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tile tile(memory);
    tile.load(dense, Place(A, blockIdx.x));
    Weights<Layout> weights(tile);
    Plan<Layout> plan(weights);
    Chunk<Layout> chunk(memory, plan);
    chunk.put(weights, plan);
    chunk.store(data + ld_global(chunk_start + blockIdx.x));
}

// sizes [chunks]: in units of 16 bytes.
template <class Layout>
int launch_size(const uint16_t* dense, int64_t M, int64_t K, int* sizes, cudaStream_t stream) {
    Grid A(M, K);
    return launch_with(Tile::BYTES, size<Layout>, A.chunks(), LANES, stream, A, Source(dense, M, K), sizes);
}

// data [16 * chunk_start[chunks]].
template <class Layout>
int launch_pack(const uint16_t* dense, int64_t M, int64_t K, const int* chunk_start, uint4* data,
                cudaStream_t stream) {
    Grid A(M, K);
    return launch_with(WARP_BYTES<Layout>, pack<Layout>, A.chunks(), LANES, stream, A, Source(dense, M, K),
                       chunk_start, data);
}

}  // namespace
}  // namespace lscd
