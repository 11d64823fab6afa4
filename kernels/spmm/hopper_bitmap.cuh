// bitmap_strips (kernels/cpu/encode/bitmap_strips.h) on its way into registers: what a lane takes from the lines of
// a chunk, as A registers of dense products. The kernel for strips multiplies these, the one by tiles stores them.
//
//   bits      two of a register: who has a value. PRMT makes a mask of each
//   count     of values before, 66 for each: 64 of it say which line, of two values each; 2 of it, in the lowest six
//             bits, which half of its word comes next: where PRMT begins to take four bytes of two words
//   register  a value that comes next stands in this word's second half, or in the next one: the next register's word
//
//             both, first half next      [a b]         -> a b
//             both, second half next     [. a] [b .]   -> a b
//             the second column alone    as if the first one had the value before
#pragma once
#include "../common/bitmap_strips.cuh"
#include "hopper_stream.cuh"

namespace lscd {
namespace {

struct BitmapStream : BitmapChunk, StreamOfLane {
    // What a lane has in front of the lines; `second`: the bank of the second half of columns.
    struct Header {
        uint4 bits;
        uint32_t second;

        __device__ __forceinline__ Header(Address chunk, uint32_t lane)
            : bits(ld_shared_v4(chunk + lane * 16)), second(ld_shared_u8(chunk + BANKS + lane)) {}
        __device__ uint32_t any() const { return bits.x; }
    };

    static constexpr uint32_t VALUE = LINE_BYTES / 2 + 2, IN_LINE = LINE_BYTES - 1;
    // What stays of a count now and then, so that the lowest six bits never overflow: they begin as 0 or 2, and have
    // room for 30 values more.
    static constexpr uint32_t SETTLED = ~0x3du;
    static constexpr int UNSETTLED = 15;

    Address chunk;               // in all lanes the same, which loads add as a uniform register
    uint32_t bank, count;        // the lane's, in bytes; the next value's, less one
    uint32_t own, at, word;      // of the register that comes next: its halves, as ones; its count and word

    __device__ __forceinline__ BitmapStream(Address chunk, uint32_t lane, const Header& header)
        : chunk(__reduce_min_sync(~0u, chunk)), bank(lane * 4), count(uint32_t(2 - LINE_BYTES / 2)) {
        look(header.bits.x, 0);
    }

    // The registers of word WORD of bits, FROM to TO: put(i, value) for each. The next one is looked at with them.
    template <int WORD, int FROM = 0, int TO = REGISTERS, class Put>
    __device__ __forceinline__ void take(const Header& header, Put put) {
        const uint4& bits = header.bits;
        constexpr int IN_BANK = WORD % WORDS_OF_HALF, FIRST = IN_BANK * REGISTERS;
        constexpr bool LAST = IN_BANK == WORDS_OF_HALF - 1;
        uint32_t now = of(bits, WORD), then = of(bits, (WORD + 1) % WORDS);
#pragma unroll
        for (int i = FROM; i < TO; i++) {
            uint32_t mine = own, begin = at, first = word, next;
            if (i + 1 < REGISTERS) look(now, FIRST + i + 1), next = word;
            else if (!LAST) look(then, REGISTERS), next = word;
            else next = load(count);
            put(i, bytes_from(first, next, begin) & mine);
        }
        if (LAST && TO == REGISTERS && WORD + 1 < WORDS) go_on_in(header.second, then);
    }

  private:
    __device__ static uint32_t of(const uint4& bits, int word) {
        return word == 0 ? bits.x : word == 1 ? bits.y : word == 2 ? bits.z : bits.w;
    }
    __device__ __forceinline__ uint32_t load(uint32_t count) const {
        return ld_shared(chunk + select_bits(IN_LINE, bank, count) + LINES);
    }
    // The nth register of a bank. A window of two halves ends with its last value, or, where it has none or the first
    // column's alone, one behind it.
    __device__ __forceinline__ void look(uint32_t bits, int nth) {
        constexpr uint32_t OF_FIRST = uint8_t(-VALUE), OF_SECOND = OF_FIRST << 16;  // a mask's bytes are 0 or -1
        if (nth && nth % UNSETTLED == 0) count &= SETTLED;
        own = own_halves(bits, nth % REGISTERS);
        at = __dp4a(int(own), int(OF_FIRST), int(count));
        count = __dp4a(int(own), int(OF_FIRST | OF_SECOND), int(count));  // not of `at`, which would take longer
        word = load(at);
    }
    // Behind the values that are there.
    __device__ __forceinline__ void go_on_in(uint32_t second, uint32_t bits) {
        count = __shfl_sync(~0u, count & SETTLED, second), bank = second * 4;
        look(bits, 0);
    }
};

}  // namespace
}  // namespace lscd
