// Chunks whose lanes have banks on the GPU, back to a dense matrix: a warp copies a chunk into shared memory, each lane
// finds its weights, zeros included, and holds them in registers until all have; then they fill a dense tile
// in the same memory, whose rows are stored. Warps have nothing to do with each other; many are on an SM, and
// hide what one waits for.
#pragma once
#include "banks.cuh"

namespace lscd {
namespace {

using namespace banks;

constexpr int WARPS = 2;

// A chunk in shared memory.
template <class Layout>
class Chunk {
    Shared<uint4> bytes_;

  public:
    __device__ Chunk(Shared<uint4> bytes, const uint4* data, const int* chunk_start, int64_t chunk)
        : bytes_(bytes) {
        int start = ld_global(chunk_start + chunk), units = ld_global(chunk_start + chunk + 1) - start;
#pragma unroll
        for (int i = lane_id(); i < MOST_BYTES<Layout> / UNIT; i += LANES)
            if (i < units) cp_async_16(bytes, i, data + start + i);
        cp_async_commit();
        cp_async_wait<0>();
        __syncwarp();
    }
    // The lane's weights.
    __device__ void take(uint32_t (&pairs)[WORDS][REGISTERS]) const {
        using Reader = typename Layout::template Reader<Shared>;
        typename Layout::Places places(bytes_);
        int bank = bytes_.as<uint8_t>().load(Layout::BANKS + lane_id());
        int above = __shfl_sync(ALL_LANES, end_of_first<Layout>(places), bank);
        Reader reader(bytes_, lane_id(), Layout::begin(lane_id()));
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            if (w == HALF) reader = Reader(bytes_, bank, above);
#pragma unroll
            for (int i = 0; i < REGISTERS; i++) pairs[w][i] = reader.pair(places, w, i);
        }
    }
};

template <class Layout>
__global__ void __launch_bounds__(WARPS * LANES)
    unpack(const __grid_constant__ Grid A, int64_t chunks, const uint4* data, const int* chunk_start,
           Target dense) {
    extern __shared__ __align__(128) unsigned char memory[];
    int64_t number = int64_t(blockIdx.x) * WARPS + warp_id();
    if (number >= chunks) return;
    unsigned char* mine = memory + warp_id() * WARP_BYTES<Layout>;
    uint32_t pairs[WORDS][REGISTERS];
    Chunk<Layout>(Shared<uint4>(mine), data, chunk_start, number).take(pairs);
    __syncwarp();
    Tile tile(mine);
#pragma unroll
    for (int w = 0; w < WORDS; w++)
#pragma unroll
        for (int i = 0; i < REGISTERS; i++) tile.put_pair(w, i, pairs[w][i]);
    __syncwarp();
    tile.store(dense, Place(A, number));
}

}  // namespace
}  // namespace lscd
