// The header of a chunk of zero-row 2:4 in shared memory: metadata and presence of a lane's tiles, and where their
// streams begin.
#pragma once
#include "zero_row_24.cuh"

namespace lscd {
namespace {

// What a chunk states beside its 32 starts: a byte, two bits of it in each of the first four. They are
// the highest ones of a start's bytes, which a dot product puts together: 64 times what is stated, and `more`.
__device__ __forceinline__ uint32_t stated_64_times(uint2 starts, uint32_t more = 0) {
    return __dp4a(prmt(starts.x, starts.y, 0x7531) & 0xc0c0c0c0u, 0x40100401u, more);
}
__device__ __forceinline__ uint32_t stated(uint2 starts) { return stated_64_times(starts) >> 6; }

// What bmma starts from to compute addresses: where the streams of a lane's tiles begin, if the chunk does at
// `at`. Each start twice, for two columns of bmma's C; by different instructions, since equal values would be
// copied into four registers in a row for each bmma anew.
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
    uint32_t sends;  // nested: of the first half, by tile and group (zero_row_24_nested.cuh)
    Address origin;  // what addresses are counted from: the chunk's start, or 0
    uint32_t bytes;  // of the chunk
};
// Whether addresses are counted from the chunk's start, which loads add as a uniform register. Measured: faster for
// sixes alone.
__host__ __device__ constexpr bool counts_from_chunk(Kind kind) { return kind == SIXES; }

// Metadata as stored.
__device__ __forceinline__ void read_metadata(Header& h, Address at, const Decoder<PAIRS>& decoder) {
    uint4 metadata = ld_shared_v4(at + decoder.metadata_at);
    h.metadata[0] = metadata.x, h.metadata[1] = metadata.y;
    h.metadata[2] = metadata.z, h.metadata[3] = metadata.w;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) h.presence[tile] = presence(h.metadata[tile]);
}

// Codes of tiles 0 to 2 in nibbles of a word each, whose highest bits are codes of tile 3.
__device__ __forceinline__ void read_metadata(Header& h, Address at, const Decoder<PACKED>& decoder) {
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

// Of a piece of sixes: indices, and 3 in slots of the other step.
__device__ __forceinline__ void read_piece(Header& h, Address at, const Decoder<SIXES>& decoder, int piece) {
    constexpr uint32_t EVEN = 0x55555555u;
    uint4 v = ld_shared_v4(at + decoder.indices_at + piece * SECOND_PIECE_AT);
    uint2 steps = ld_shared_v2(at + decoder.steps_at + piece * SECOND_PIECE_AT);
    uint32_t indices[TILES] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int pair = 0; pair < TILES / 2; pair++) {
        uint32_t others = (pair ? steps.y : steps.x) ^ decoder.second;
        h.metadata[2 * pair] = indices[2 * pair] | (others & EVEN) | (others << 1 & ~EVEN);
        h.metadata[2 * pair + 1] = indices[2 * pair + 1] | (others & ~EVEN) | (others >> 1 & EVEN);
    }
}

// Presence of both pieces; metadata of the first one.
__device__ __forceinline__ void read_metadata(Header& h, Address at, const Decoder<SIXES>& decoder) {
    uint4 v = ld_shared_v4(at + decoder.presence_at);
    h.presence[0] = presence(v.x), h.presence[1] = presence(v.y);
    h.presence[2] = presence(v.z), h.presence[3] = presence(v.w);
    read_piece(h, at, decoder, 0);
}

template <Kind KIND>
__device__ Header header(Address at, const Decoder<KIND>& decoder) {
    Header h;
    uint2 starts = ld_shared_v2(at + decoder.starts_at);
    read_metadata(h, at, decoder);
    h.bytes = stated_64_times(starts, 64 * least_units(KIND)) >> 1;  // stated in 32 bytes
    h.origin = counts_from_chunk(KIND) ? at : 0;
    begin_streams(h.bases, starts, at - h.origin);
    return h;
}

}  // namespace
}  // namespace lscd
