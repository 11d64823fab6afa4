// A chunk of a strip in shared memory: to A registers of wgmma.sp, and for weights that found no slot to
// fragments of mma.sync.
#pragma once
#include "hopper_chunk.cuh"
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// What bmma starts from to compute the addresses of values.
struct StripHeader {
    uint32_t presence[TILES], bases[TILES / 2][4];
    uint32_t steps;  // of entries
};

__device__ __forceinline__ StripHeader strip_header(Address at, int lane,
                                                    uint32_t (&metadata)[TILES]) {
    StripHeader h;
    uint4 four = ld_shared_v4(at + lane * 16);
    metadata[0] = four.x, metadata[1] = four.y, metadata[2] = four.z, metadata[3] = four.w;
    uint2 starts = ld_shared_v2(at + starts_at(true) + lane / 4 * 8);
    h.steps = __shfl_sync(~0u, stated(starts), 0);
    begin_streams(h.bases, starts, at);
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) h.presence[tile] = presence(metadata[tile]);
    return h;
}

// Where the values of two tiles lie, for one step.
__device__ __forceinline__ void locate(uint32_t (&at)[2][4], const StripHeader& h,
                                       const uint32_t (&masks)[4], int step, int pair) {
#pragma unroll
    for (int half = 0; half < 2; half++)
        bmma_m16n8k128(at[half], h.presence[2 * pair], h.presence[2 * pair + 1],
                       masks[2 * step + half], h.bases[pair]);
}
// extract: these values, into A registers.
__device__ __forceinline__ void extract(uint32_t (&a)[TILES][4], const uint32_t (&at)[2][4], int pair) {
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[2 * pair + i / 2][2 * half + i % 2] =
                left_out(Stage::extract) ? wgmma_operand(at[half][i] & 0x3bff3bff)
                                         : gather<true>(at[half][i]);
}

// Weights that found no slot, eight of them: A [16 x 8] holds one in each column, and B the rows of B' that
// they meet. The swizzle of entry i is that of row i.
template <class T, int BLOCK_N>
struct EntryStep {
    using Tile = DenseTile<BLOCK_N>;

    uint32_t a[2];
    Address row;  // of B', that the lane reads for ldmatrix

    __device__ __forceinline__ void load(Address entries, Address tile, int lane) {
        uint32_t own = anew(lane), g = own / 4, place = own % 8;  // signed / and % take three instructions
        auto of_row = [](uint32_t entry, uint32_t row) { return entry >> 24 == row ? entry & 0xffff : 0; };
        uint2 two = ld_shared_v2(entries + own % 4 * 8);
        uint32_t mine = ld_shared(entries + place * 4);
        a[0] = of_row(two.x, g) | of_row(two.y, g) << 16;
        a[1] = of_row(two.x, g + 8) | of_row(two.y, g + 8) << 16;
        row = tile + ((own / 8 ^ Tile::swizzle(place)) << 4) + (mine >> 16 & 255) * Tile::ROW_BYTES;
    }
    __device__ __forceinline__ void add_to(float (&sum)[BLOCK_N / 8][4]) const {
#pragma unroll
        for (int n = 0; n < BLOCK_N; n += 32) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, (row ^ n % Tile::PART * 2) + n / Tile::PART * Tile::PART_BYTES);
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (n + 8 * i < BLOCK_N) mma_m16n8k8<T>(sum[n / 8 + i], a[0], a[1], b[i]);
        }
    }
};

}  // namespace
}  // namespace lscd
