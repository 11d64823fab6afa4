// coded_strips (kernels/cpu/encode/coded_strips.h) on its way into registers, five instructions for each: of four
// pairs' codes, which are nibbles, PRMT makes four bytes of what is to be known of them.
//
//   low, high   what selects each pair's first half, and its second one: 0 nothing, HALVES of its word
//   begins      BEGINS, if its word is the next one
//   word        where it stands, a line below for each that has begun: a sum of bytes for each of the four, IDP.4A
//   register    PRMT of a zero and the word, by the pair's bytes of `low` and `high`
#pragma once
#include "../common/coded_strips.cuh"
#include "hopper_stream.cuh"

namespace lscd {
namespace {

// A table of PRMT: bytes by code.
constexpr uint32_t by_code(uint32_t of_4, uint32_t of_5, uint32_t of_6, uint32_t of_7) {
    return of_4 | of_5 << 8 | of_6 << 16 | of_7 << 24;
}

struct CodedStream : CodedChunk, StreamOfLane {
    // Code words of the lane, three of each half; `second`: the lane that has the second half's bank.
    struct Header {
        uint4 first;
        uint2 others;
        uint32_t second;

        __device__ __forceinline__ Header(Address chunk, uint32_t lane)
            : first(ld_shared_v4(chunk + lane * 16)), others(ld_shared_v2(chunk + CODES_OF_SECOND + lane * 8)),
              second(ld_shared_u8(chunk + BANKS + lane)) {}
        __device__ uint32_t any() const { return first.x; }
    };

    static constexpr int TOGETHER = 4;  // pairs, whose codes are a selector of PRMT
    // Halves of a word, as bytes that are two nibbles of a selector behind a register of zeros.
    static constexpr uint32_t FIRST = 0x54, SECOND = 0x76, BEGINS = LINE_BYTES;
    // Bytes by code, 4 to 7; those of 0 to 3 are 0, but for the second half of 3.
    static constexpr uint32_t LOW = by_code(FIRST, 0, FIRST, SECOND), HIGH = by_code(0, FIRST, SECOND, 0);
    static constexpr uint32_t BEGIN = by_code(BEGINS, BEGINS, BEGINS, 0);

    Address chunk;       // in all lanes the same, which loads add as a uniform register
    uint32_t at;         // of the word that has begun last
    uint32_t high_of_3;  // codes 0 to 3: a constant, beside which 1 and 2 have what the compiler does not know, so
                         // that it is kept in a register

    __device__ __forceinline__ CodedStream(Address chunk, uint32_t lane, const Header& header)
        : chunk(__reduce_min_sync(~0u, chunk)), at(lane * 4 - (lane < BEGIN_BELOW ? 0 : LINE_BYTES)),
          high_of_3(SECOND << 24 | header.second << 8) {}

    template <int WORD, int FROM = 0, int TO = REGISTERS, class Put>
    __device__ __forceinline__ void take(const Header& header, Put put) {
        static_assert(FROM % TOGETHER == 0 && TO % TOGETHER == 0);
        if (WORD == WORDS_OF_HALF && FROM == 0) at = __shfl_sync(~0u, at, header.second);
#pragma unroll
        for (int i = FROM; i < TO; i += TOGETHER) {
            uint32_t codes = eight<WORD % WORDS_OF_HALF, WORD / WORDS_OF_HALF>(header, i / 8) >> i % 8 * 4;
            uint32_t low = prmt(0, LOW, codes), high = prmt(high_of_3, HIGH, codes), begin = prmt(0, BEGIN, codes);
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                uint32_t word = load(__dp4a(begin, 0x01010101u >> 8 * (TOGETHER - 1 - j), at));
                put(i + j, prmt(0, word, prmt(low, high, (TOGETHER + j) << 4 | j)));
            }
            at = __dp4a(begin, 0x01010101u, at);
        }
    }

  private:
    __device__ __forceinline__ uint32_t load(uint32_t at) const { return ld_shared(chunk + at + LINES); }
    // Eight codes of a word of registers, the nth, as nibbles.
    template <int IN_HALF, int HALF>
    __device__ static uint32_t eight(const Header& header, int nth) {
        const uint4& a = header.first;
        uint32_t w0 = HALF ? a.w : a.x, w1 = HALF ? header.others.x : a.y, w2 = HALF ? header.others.y : a.z;
        if (IN_HALF == 0) return (nth ? w1 : w0) & CODES;
        return nth ? fourth(w0, w1, w2) : w2 & CODES;
    }
};

}  // namespace
}  // namespace lscd
