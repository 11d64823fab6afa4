// A chunk of zero-row 2:4 in shared memory, to A fragments of mma.sp: metadata, presence, addresses by
// bmma, values.
#pragma once
#include "../common/stages.cuh"
#include "hopper.cuh"

namespace lscd {
namespace {

// What a lane needs of every chunk; kept, so that the loop does not compute it anew.
template <bool PAIRS>
struct Decoder {
    uint32_t masks[4];  // rank_mask of each half of each step
    uint32_t metadata_at, starts_at;
    __device__ explicit Decoder(int lane)
        : metadata_at(keep(lane * (PAIRS ? 16 : 12))),
          starts_at(keep(lscd::starts_at(PAIRS) + lane / 4 * 8)) {
        for (int q = 0; q < 4; q++)
            masks[q] = keep(PAIRS ? rank_mask(q, lane) : swapped(rank_mask(q, lane)));
    }
};

// What a chunk states beside its 32 starts: a byte, two bits of it in each of the first four.
__device__ __forceinline__ uint32_t stated(uint2 starts) {
    return starts.x >> 14 & 3 | starts.x >> 28 & 12 | starts.y >> 10 & 48 | starts.y >> 24 & 192;
}

// What bmma starts from to compute addresses: where the streams of a lane's tiles begin. Each start
// twice, for two columns of bmma's C; as different sums, since equal ones would be copied into four
// registers in a row for each bmma anew.
__device__ __forceinline__ void begin_streams(uint32_t (&bases)[TILES / 2][4], uint2 starts, Address at) {
#pragma unroll
    for (int pair = 0; pair < TILES / 2; pair++) {
        uint32_t two = (pair ? starts.y : starts.x) & 0x3fff3fff, *base = bases[pair];
        base[0] = at + (two & 0xffff), base[1] = __dp2a_lo(two, 0x001u, at);
        base[2] = at + (two >> 16), base[3] = __dp2a_lo(two, 0x100u, at);
    }
}

// Metadata of a lane's tiles, and what its values' addresses are computed from.
struct Header {
    uint32_t metadata[TILES], presence[TILES], bases[TILES / 2][4];
    uint32_t bytes;  // of the chunk
};

// Metadata as stored.
__device__ __forceinline__ void read_metadata(Header& h, Address at, const Decoder<true>& decoder) {
    uint4 metadata = ld_shared_v4(at + decoder.metadata_at);
    h.metadata[0] = metadata.x, h.metadata[1] = metadata.y;
    h.metadata[2] = metadata.z, h.metadata[3] = metadata.w;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) h.presence[tile] = presence(h.metadata[tile]);
}

// Codes of tiles 0 to 2 in nibbles of a word each, whose highest bits are codes of tile 3.
__device__ __forceinline__ void read_metadata(Header& h, Address at, const Decoder<false>& decoder) {
    uint32_t last = 0;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        uint32_t codes = last;
        if (tile < TILES - 1) {
            uint32_t word = ld_shared(at + decoder.metadata_at + tile * 4);
            last |= word >> (3 - tile) & 0x11111111u << tile;
            codes = word & 0x77777777u;
        }
        PackedTile found = look_up(codes);
        h.metadata[tile] = found.metadata, h.presence[tile] = found.presence;
    }
}

template <bool PAIRS>
__device__ Header header(Address at, const Decoder<PAIRS>& decoder) {
    Header h;
    uint2 starts = ld_shared_v2(at + decoder.starts_at);
    read_metadata(h, at, decoder);
    h.bytes = stated(starts) * 32;
    begin_streams(h.bases, starts, at);
    return h;
}

// extract: the A fragments of a step. A bmma gives the addresses of two tiles' values.
template <bool PAIRS>
__device__ void extract(uint32_t (&a)[TILES][4], const Header& h, const Decoder<PAIRS>& decoder,
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
                    left_out(Stage::extract) ? at[i] & 0x3bff3bff : gather<PAIRS>(at[i]);
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
