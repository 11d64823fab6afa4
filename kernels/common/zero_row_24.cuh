// A chunk of zero-row 2:4 in shared memory, of whichever format: from metadata to the addresses of
// values, which the tensor core counts (bmma; operands of it here, the rest in zero_row_24_header.cuh).
// spmm/hopper.md says why; kernels/cpu/encode/zero_row_24_tile.h how bytes lie.
//
//   lane (g, t)   rows g and g + 8 of each tile, groups step * 8 + half * 4 + t; sixes half * 4 + t, of both steps,
//                 of each piece
#pragma once
#include "ptx.cuh"

namespace lscd {

constexpr int TILES = 4;         // of a piece, 16 x 48 each
constexpr int NESTED_COLS = 72;  // of a nested chunk, whose level 1 stands inside
// Of streams: values one behind the other, words of two of them, such words of six columns; words in chunks that have
// their level 1 inside (zero_row_24_nested.cuh). Encodings state these numbers (Streams of analysis/zero_row_24.py).
enum Kind { PACKED, PAIRS, SIXES, NESTED };
// Calls use(a constant of it) for a kind that is known when the program runs.
template <class Use>
auto with_kind(int64_t kind, Use use) {
    if (kind == NESTED) return use(std::integral_constant<Kind, NESTED>());
    if (kind == SIXES) return use(std::integral_constant<Kind, SIXES>());
    return kind == PAIRS ? use(std::integral_constant<Kind, PAIRS>())
                         : use(std::integral_constant<Kind, PACKED>());
}
// Where starts stand, behind metadata: codes of packed streams, and those of sixes, have three quarters of their bits.
__host__ __device__ constexpr int starts_at(Kind kind) {
    return kind == NESTED ? 768 : kind == PAIRS ? 512 : 384;
}
__host__ __device__ constexpr int header_bytes(Kind kind) { return starts_at(kind) + 64; }
constexpr int STEPS_AT = 256;  // of sixes, behind their indices
// A chunk states its size in 8 bits, in units of 32 bytes beyond these: a nested one has 28 units at least and 283,
// 9056 bytes, at most.
__host__ __device__ constexpr int least_units(Kind kind) { return kind == NESTED ? 28 : 0; }
// Pieces of 64 x 48 side by side in a chunk, at most; of the second one metadata stand behind starts.
__host__ __device__ constexpr int pieces_of(Kind kind) { return kind == SIXES ? 2 : 1; }
constexpr int SECOND_PIECE_AT = header_bytes(SIXES), SECOND_PIECE_BYTES = starts_at(SIXES);

// bmma's B operand: which groups of a stream come before the one whose address a lane looks for. Its
// column, lane / 4, is 2 t + row half; its word, lane % 4, has 4 bits for each of eight groups, or sixes.
// `gather` is 2 step + half of the addresses wanted; of sixes 2 piece + half.
__device__ inline uint32_t rank_mask(int gather, int lane) {
    int mine = (gather * 2 + lane / 4 % 2) * 4 + lane / 8;  // the group, of 32
    int before = min(max(mine - lane % 4 * 8, 0), 8);       // groups of the word that come before it
    return before == 8 ? ~0u : (1u << 4 * before) - 1;
}

// bmma's A operand: of each group as many bits as its values move the stream forward, in bytes.

// Of words: 4 bytes for slot 1, whose index is 3 if it is not in use.
__device__ inline uint32_t presence(uint32_t metadata) {
    return (~(metadata >> 2 & metadata >> 3) & 0x11111111u) * 15;
}

// Of packed streams: 2 bytes a slot. Codes of 3 bits become metadata and presence, by a table of eight
// bytes: PRMT looks four codes up at once. Bytes for even groups hold presence above the nibble of
// metadata, those for odd groups below it, so that both kinds are put together without a shift; even
// and odd groups have changed places in presence then, as they have in `swapped` masks.
struct PackedTile {
    uint32_t metadata, presence;
};
__device__ inline PackedTile look_up(uint32_t codes) {
    constexpr uint32_t LOW = 0x0f0f0f0fu;
    uint32_t even = prmt(0xf9f8f4f0u, 0x0f3e3d3cu, codes);
    uint32_t odd = prmt(0x9f8f4f0fu, 0xf0e3d3c3u, codes >> 16);
    return {select_bits(LOW, even, odd), select_bits(LOW, odd, even)};
}
__device__ inline uint32_t swapped(uint32_t mask) {
    return (mask & 0x0f0f0f0fu) << 4 | (mask >> 4 & 0x0f0f0f0fu);
}

// The values of a group; those of LEVEL 1 in a nested chunk are packed.
template <Kind KIND, bool LEVEL = false>
__device__ inline uint32_t gather(Address at) {
    return KIND == PACKED || LEVEL ? ld_shared_halves(at) : ld_shared(at);
}

namespace {

// What a lane needs of every chunk; kept, so that the loop does not compute it anew.
template <Kind KIND>
struct Decoder {
    uint32_t masks[4];  // rank_mask of each half of each step
    uint32_t metadata_at, starts_at;
    __device__ explicit Decoder(int lane)
        : metadata_at(keep(lane * (KIND == PAIRS ? 16 : 12))),
          starts_at(keep(lscd::starts_at(KIND) + lane / 4 * 8)) {
        for (int q = 0; q < 4; q++)
            masks[q] = keep(KIND == PAIRS ? rank_mask(q, lane) : swapped(rank_mask(q, lane)));
    }
};

// Of sixes: lanes 0 and 1 of each four have the presence of the first piece, lanes 2 and 3 that of the second one,
// if there is one. No mask of the first piece has a bit of theirs.
template <>
struct Decoder<SIXES> {
    uint32_t masks[4];
    uint32_t indices_at, steps_at, starts_at, presence_at;
    uint32_t second;  // all ones in lanes whose metadata are those of step 1
    __device__ explicit Decoder(int lane)
        : indices_at(keep(nth(lane) * 16)), steps_at(keep(STEPS_AT + nth(lane) * 8)),
          starts_at(keep(lscd::starts_at(SIXES) + lane / 4 * 8)),
          presence_at(keep(nth(lane) * 16 + (lane & 2 ? SECOND_PIECE_AT : 0))), second(keep(lane & 2 ? ~0u : 0)) {
        for (int q = 0; q < 4; q++) masks[q] = keep(rank_mask(q, lane));
    }

  private:
    __device__ static int nth(int lane) { return lane / 4 * 2 + lane % 2; }  // (g, half)
};

}  // namespace
}  // namespace lscd
