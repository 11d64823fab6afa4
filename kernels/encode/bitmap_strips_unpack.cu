// Bitmaps in strips on the GPU, back to a dense matrix: a warp copies a chunk into shared memory, each lane
// finds its weights, zeros included, and holds them in registers until all have; then they fill a dense tile
// in the same memory, whose rows are stored. Warps have nothing to do with each other; many are on an SM, and
// hide what one waits for.
#include "bitmap_strips.cuh"

namespace lscd {
namespace {

using namespace bitmap;

constexpr int WARPS = 2;

// A chunk in shared memory.
class Chunk {
    Shared<uint4> bytes_;

  public:
    __device__ Chunk(Shared<uint4> bytes, const uint4* data, const int* chunk_start, int64_t chunk)
        : bytes_(bytes) {
        int start = ld_global(chunk_start + chunk), units = ld_global(chunk_start + chunk + 1) - start;
#pragma unroll
        for (int i = lane_id(); i < MOST_BYTES / UNIT; i += LANES)
            if (i < units) cp_async_16(bytes, i, data + start + i);
        cp_async_commit();
        cp_async_wait<0>();
        __syncwarp();
    }
    // The lane's weights.
    __device__ void take(uint32_t (&pairs)[WORDS][REGISTERS]) const {
        uint4 four = bytes_.load(lane_id());
        uint32_t bits[WORDS] = {four.x, four.y, four.z, four.w};
        int bank = bytes_.as<uint8_t>().load(BANKS + lane_id());
        int above = __shfl_sync(ALL_LANES, __popc(bits[0]) + __popc(bits[1]), bank);
        Shared<uint16_t> values = bytes_.as<uint16_t>() + LINES / 2;
        Positions positions(lane_id(), 0);
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            if (w == HALF) positions = Positions(bank, above);
#pragma unroll
            for (int i = 0; i < REGISTERS; i++) {
                uint32_t halves[2] = {};
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if (bits[w] >> bit_of(i, h) & 1) halves[h] = values.load(positions.next());
                pairs[w][i] = prmt(halves[0], halves[1], 0x5410);
            }
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
    uint32_t pairs[WORDS][REGISTERS];
    Chunk(Shared<uint4>(mine), data, chunk_start, number).take(pairs);
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

using namespace lscd;
using namespace lscd::bitmap;

// Writes dense [M, K], zeros included: a matrix, or whole 64 rows of one, whose first chunk is that
// of chunk_start[0].
LSCD_EXPORT int lscd_bitmap_strips_unpack(const uint4* data, const int* chunk_start, int64_t M, int64_t K,
                                          uint16_t* dense, cudaStream_t stream) {
    return launch_unpack<WARPS>(unpack, WARP_BYTES, data, chunk_start, M, K, dense, stream);
}
