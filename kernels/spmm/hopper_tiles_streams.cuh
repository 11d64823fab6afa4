// A warp that decodes a strip of bitmap_strips or coded_strips for the kernel by tiles: registers of dense products,
// which the kernel for strips multiplies, go to their places in tiles instead. Where a warp stores one of each lane, no
// two lanes meet in a bank.
#pragma once
#include "../common/stages.cuh"
#include "hopper_bitmap.cuh"
#include "hopper_coded.cuh"
#include "hopper_tiles_chunks.cuh"

namespace lscd {
namespace {

template <class STREAM, class Has>
struct StreamDecoder : ChunkWarp<Has, StreamDecoder<STREAM, Has>> {
    using Base = ChunkWarp<Has, StreamDecoder<STREAM, Has>>;
    using Base::Base, Base::p, Base::memory, Base::lane, Base::ring;
    using Stream = STREAM;
    using Header = typename Stream::Header;
    static_assert(STEPS_OF_ROUND == Stream::WORDS);

    // Of a lane's first register, in row g; others are 16 bytes apart before the swizzle, or eight rows.
    __device__ static uint32_t place_of(uint32_t lane) {
        uint32_t g = lane / 4, t = lane % 4;
        return g * 128 + g * 16 + t * 4;
    }

    // A word of registers, in this block's tile and in the other's, once both have a place for it.
    template <int WORD>
    __device__ __forceinline__ void decode_word(Stream& stream, const Header& header, uint32_t round) const {
        auto target = this->target(round * STEPS_OF_ROUND + WORD);
        uint32_t values[Stream::REGISTERS];
        stream.template take<WORD>(header, [&](int i, uint32_t value) { values[i] = value; });
        this->wait_for(target);
        Address to = memory + target.at + place_of(anew(lane));
#pragma unroll
        for (int i = 0; i < Stream::REGISTERS; i++)
            if (!left_out(Stage::extract)) st_shared((to ^ i / 2 * 16) + i % 2 * 1024, values[i]);
        this->send(target);
    }

    __device__ __forceinline__ void decode(uint32_t place, uint32_t round) const {
        Address at = ring + place * p.stage_bytes;
        Header header(at, lane);
        Stream stream(at, lane, header);
        decode_word<0>(stream, header, round), decode_word<1>(stream, header, round);
        decode_word<2>(stream, header, round), decode_word<3>(stream, header, round);
    }
};

template <class STREAM>
struct Streams {
    template <class Has>
    using Decoder = StreamDecoder<STREAM, Has>;
    static constexpr int SETS = 1, STEPS_OF_ROUND = lscd::STEPS_OF_ROUND, RINGS = OWN_STRIPS;
    static constexpr bool LARGE_RINGS = true;

    static bool fits(const WgmmaProblem& p) { return p.stages == CHUNKS_UNDER_WAY; }
};

}  // namespace
}  // namespace lscd
