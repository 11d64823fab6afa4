// The header of a nested chunk of zero-row 2:4, 64 x 72 with its level 1 inside, in shared memory: of its halves,
// steps 0 and 1, then step 2 and level 1. kernels/cpu/encode/zero_row_24_nested.h says how bytes lie.
//
//   planes      bit m of nibble n of four words is code n of tile m: what a code stands for takes a few operations
//               for 32 groups at once
//   level 1     its metadata follow from who sends; lanes 2 and 3 of each four have them, and those of step 1, and look
//               at step 2's
#pragma once
#include "zero_row_24_header.cuh"

namespace lscd {
namespace {

constexpr int SECOND_HALF_AT = 512;

template <>
struct Decoder<NESTED> {
    uint32_t masks[4];  // rank_mask of each half of each step
    uint32_t first_at, second_at, starts_at;
    uint32_t level;  // all ones in lanes whose metadata are those of level 1, in the second half
    __device__ explicit Decoder(int lane)
        : first_at(keep(lane * 16)), second_at(keep(SECOND_HALF_AT + (lane / 4 * 2 + lane % 2) * 16)),
          starts_at(keep(lscd::starts_at(NESTED) + lane / 4 * 8)), level(keep(lane & 2 ? ~0u : 0)) {
        for (int q = 0; q < 4; q++) masks[q] = keep(rank_mask(q, lane));
    }
};

// Of four tiles: bits of metadata, which groups have slot 1 in use, and which send their middle weight to level 1. (Of
// streams of words slot 1 says that there is a word.)
struct Planes {
    uint32_t bit[4], present, sends;

    // Of stored codes: those that say that a group sends become nibbles of metadata.
    __device__ __forceinline__ explicit Planes(uint4 code) {
        uint32_t a = code.x, b = code.y, c = code.z, d = code.w;
        uint32_t low = ~(a & b) & (~c | a | b), ten = ~a & b & ~c;  // 0, 1, 2, 5, 6; 10 without its highest bit
        sends = ~d & low | d & ten;
        bit[0] = a | (d & ten), bit[1] = b ^ (~d & low), bit[2] = c ^ (~d & low), bit[3] = ~d & low | d & ~ten;
        present = ~(bit[2] & bit[3]);
    }
    // Words of metadata, one for each tile.
    __device__ __forceinline__ void transpose(uint32_t (&metadata)[TILES]) const {
        constexpr uint32_t EVEN = 0x55555555u, LOW = 0x33333333u;
        uint32_t even[2], odd[2];  // of bits 0 and 1, and of 2 and 3: tiles 0 and 2, 1 and 3
#pragma unroll
        for (int i = 0; i < 2; i++) {
            even[i] = select_bits(EVEN, bit[2 * i], bit[2 * i + 1] << 1);
            odd[i] = select_bits(EVEN, bit[2 * i] >> 1, bit[2 * i + 1]);
        }
        metadata[0] = select_bits(LOW, even[0], even[1] << 2), metadata[2] = select_bits(LOW, even[0] >> 2, even[1]);
        metadata[1] = select_bits(LOW, odd[0], odd[1] << 2), metadata[3] = select_bits(LOW, odd[0] >> 2, odd[1]);
    }
    // Of each tile two bytes for a group of `first` and two for one of `second`.
    __device__ __forceinline__ static void presence(uint32_t (&of)[TILES], uint32_t first, uint32_t second) {
        constexpr uint32_t LOW = 0x33333333u, EVEN = 0x55555555u;
#pragma unroll
        for (int pair = 0; pair < TILES / 2; pair++) {
            uint32_t two = pair ? select_bits(LOW, first >> 2, second) : select_bits(LOW, first, second << 2);
            of[2 * pair] = (two & EVEN) * 3, of[2 * pair + 1] = (two >> 1 & EVEN) * 3;
        }
    }
};

// The first half.
__device__ __forceinline__ void read_metadata(Header& h, Address at, const Decoder<NESTED>& decoder) {
    Planes planes(ld_shared_v4(at + decoder.first_at));
    planes.transpose(h.metadata);
    h.sends = planes.sends;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) h.presence[tile] = (planes.present >> tile & 0x11111111u) * 15;
}

// Where streams are behind the first half: all its groups are counted.
__device__ __forceinline__ void advance_streams(Header& h) {
#pragma unroll
    for (int pair = 0; pair < TILES / 2; pair++) {
        uint32_t at[4];
        bmma_m16n8k128(at, h.presence[2 * pair], h.presence[2 * pair + 1], ~0u, h.bases[pair]);
        memcpy(h.bases[pair], at, sizeof at);
    }
}

// The second half. Of level 1 a group has the weight of the first one that sends in slot 0, and in slot 1 that of the
// last one, if two do.
__device__ __forceinline__ void read_piece(Header& h, Address at, const Decoder<NESTED>& decoder, int /*half*/) {
    advance_streams(h);
    Planes planes(ld_shared_v4(at + decoder.second_at));
    uint32_t first = __shfl_xor_sync(~0u, h.sends, 2), second = h.sends, third = planes.sends;
    uint32_t index[4] = {~first & (second | ~third), ~(first | second),
                         ~(third & (first | second)), ~(first & second & ~third)};
    uint32_t any = first | second | third, two = first & second | first & third | second & third;
#pragma unroll
    for (int i = 0; i < 4; i++) planes.bit[i] = select_bits(decoder.level, index[i], planes.bit[i]);
    planes.transpose(h.metadata);
    planes.presence(h.presence, select_bits(decoder.level, any, planes.present),
                    select_bits(decoder.level, two, planes.present));
}

}  // namespace
}  // namespace lscd
