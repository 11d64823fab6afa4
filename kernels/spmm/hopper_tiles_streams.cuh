// A warp that decodes a strip of bitmap_strips for the kernel by tiles: registers of dense products, which the kernel
// for strips multiplies, go to their places in tiles instead. Where a warp stores one of each lane, no two lanes meet
// in a bank.
#pragma once
#include "../common/stages.cuh"
#include "hopper_bitmap.cuh"
#include "hopper_tiles_chunks.cuh"

namespace lscd {
namespace {

template <class Has>
struct StreamDecoder : ChunkWarp<Has, StreamDecoder<Has>> {
    using Base = ChunkWarp<Has, StreamDecoder<Has>>;
    using Base::Base, Base::p, Base::memory, Base::lane, Base::ring;
    using Stream = BitmapStream;
    static_assert(STEPS_OF_ROUND == Stream::WORDS);

    // Of a lane's first register, in row g; others are 16 bytes apart before the swizzle, or eight rows.
    __device__ static uint32_t place_of(uint32_t lane) {
        uint32_t g = lane / 4, t = lane % 4;
        return g * 128 + g * 16 + t * 4;
    }

    // A word of bits, in this block's tile and in the other's, once both have a place for it.
    template <int WORD>
    __device__ __forceinline__ void decode_word(Stream& stream, const uint4& bits, uint32_t second,
                                                uint32_t round) const {
        auto target = this->target(round * STEPS_OF_ROUND + WORD);
        uint32_t values[Stream::REGISTERS];
        stream.take<WORD>(bits, second, [&](int i, uint32_t value) { values[i] = value; });
        this->wait_for(target);
        Address to = memory + target.at + place_of(anew(lane));
#pragma unroll
        for (int i = 0; i < Stream::REGISTERS; i++)
            if (!left_out(Stage::extract)) st_shared((to ^ i / 2 * 16) + i % 2 * 1024, values[i]);
        this->send(target);
    }

    __device__ __forceinline__ void decode(uint32_t place, uint32_t round) const {
        Address at = ring + place * p.stage_bytes;
        uint4 bits = ld_shared_v4(at + lane * 16);
        uint32_t second = ld_shared_u8(at + Stream::BANKS + lane);
        Stream stream(at, lane, bits.x);
        decode_word<0>(stream, bits, second, round), decode_word<1>(stream, bits, second, round);
        decode_word<2>(stream, bits, second, round), decode_word<3>(stream, bits, second, round);
    }
};

struct Streams {
    template <class Has>
    using Decoder = StreamDecoder<Has>;
    static constexpr int SETS = 1, STEPS_OF_ROUND = lscd::STEPS_OF_ROUND, RINGS = OWN_STRIPS;
    static constexpr bool LARGE_RINGS = true;

    static bool fits(const WgmmaProblem& p) { return p.stages == CHUNKS_UNDER_WAY; }
};

}  // namespace
}  // namespace lscd
