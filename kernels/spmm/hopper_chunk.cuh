// A chunk of zero-row 2:4 in shared memory, to A fragments of mma.sp: metadata, presence, addresses by
// bmma, values.
#pragma once
#include "../common/stages.cuh"
#include "../common/zero_row_24_nested.cuh"
#include "hopper.cuh"

namespace lscd {
namespace {

// extract: the A fragments of a step; of sixes those of a piece, which both steps multiply; of LEVEL 1 in a nested
// chunk. A bmma gives the addresses of two tiles' values.
template <Kind KIND, bool LEVEL = false>
__device__ void extract(uint32_t (&a)[TILES][4], const Header& h, const Decoder<KIND>& decoder,
                        int step) {
#pragma unroll
    for (int pair = 0; pair < TILES / 2; pair++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t at[4];
            bmma_m16n8k128(at, h.presence[2 * pair], h.presence[2 * pair + 1],
                           decoder.masks[2 * step + half], h.bases[pair]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[2 * pair + i / 2][2 * half + i % 2] =
                    left_out(Stage::extract) ? at[i] & 0x3bff3bff : gather<KIND, LEVEL>(h.origin + at[i]);
        }
}

// Metadata of ascending indices alone, for both steps: all that PTX promises to select. Where slot 0 is
// not in use, slot 1 takes its place, and the value moves; a group without one has {2, 3} and zeros.
__device__ __forceinline__ void only_documented(uint32_t (&a)[2][TILES][4], Header& h, int lane) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        uint32_t m = h.metadata[tile], moves = m & m >> 1 & 0x11111111u, empty = moves & m >> 2 & m >> 3;
        h.metadata[tile] = (m & ~(moves * 15) | m >> 2 & moves * 3 | moves * 12) ^ empty;
#pragma unroll
        for (int q = 0; q < 4; q++) {  // half q % 2 of step q / 2: groups that lane q of four has metadata of
            uint32_t of_q = __shfl_sync(~0u, moves | empty << 1, (lane & ~3) | q) >> lane % 4 * 4;
#pragma unroll
            for (int row_half = 0; row_half < 2; row_half++) {
                uint32_t& two = a[q / 2][tile][q % 2 * 2 + row_half];
                if (of_q >> row_half * 16 & 1) two = of_q >> row_half * 16 & 2 ? 0 : two >> 16;
            }
        }
    }
}

}  // namespace
}  // namespace lscd
