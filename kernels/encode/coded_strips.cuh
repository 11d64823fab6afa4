// Codes of pairs in strips on the GPU: what tells them from other chunks whose lanes have banks (banks.cuh). The bytes
// are drawn in kernels/cpu/encode/coded_strips.h, and what codes say in kernels/common/coded_strips.cuh.
#pragma once
#include "../common/coded_strips.cuh"
#include "banks.cuh"

namespace lscd::coded {
namespace {  // other formats have a Layout of their own

using namespace banks;

constexpr int EIGHT = 8, EIGHTS = HALF * REGISTERS / EIGHT, CODE_WORDS = EIGHTS - 1;  // of a half

// Sets of codes, a bit for each: whose pairs have the first weight, the second one, or begin a word.
constexpr uint32_t HAVE_FIRST = 0xd0, HAVE_SECOND = 0x68, BEGIN = 0x70;

// The lowest bits of nibbles whose code is in the set.
template <uint32_t SET>
__device__ uint32_t codes_in(uint32_t codes) {
    uint32_t found = 0;
#pragma unroll
    for (int code = 0; code < 8; code++)
        if (SET >> code & 1)
            found |= (code & 4 ? codes >> 2 : ~(codes >> 2)) & (code & 2 ? codes >> 1 : ~(codes >> 1)) &
                     (code & 1 ? codes : ~codes);
    return found & CodedChunk::LOWEST;
}

// Selectors of PRMT for the pair of each of four codes: a byte for each, of its first half and of its second one. Of
// its word's halves, or zeros.
__device__ inline uint32_t first_selectors(uint32_t codes) { return prmt(0x44444444, 0x32104410, codes); }
__device__ inline uint32_t second_selectors(uint32_t codes) { return prmt(0x32444444, 0x44321044, codes); }

// A nibble for each case of a pair: it has neither weight, the first one, the second one, both. Its code, and bit 3 if
// the word that is the last one then has room for a value; where there was such room before, and where there was none.
constexpr uint32_t AFTER_ROOM = 0x6378, AFTER_NONE = 0x6dc0, ROOM = 8;

struct Layout : CodedChunk {
    static __device__ int begin(int bank) { return bank < BEGIN_BELOW ? 2 : 0; }

    class Places {
        uint32_t words_[2][CODE_WORDS] = {}, last_ = 0;  // by half; the last eight, before it is spread
        bool room_ = false;

        __device__ uint32_t eight(int half, int e) const {
            const uint32_t(&words)[CODE_WORDS] = words_[half];
            return e < CODE_WORDS ? words[e] & CODES : fourth(words[0], words[1], words[2]);
        }
        template <uint32_t SET>
        __device__ int count(int half) const {
            int found = 0;
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) found += __popc(codes_in<SET>(eight(half, e)));
            return found;
        }

      public:
        Places() = default;
        template <template <class> class Memory>
        __device__ explicit Places(Memory<uint4> chunk) {
            uint4 four = chunk.load(lane_id());
            uint2 two = chunk.template as<uint2>().load(CODES_OF_SECOND / 8 + lane_id());
            words_[0][0] = four.x, words_[0][1] = four.y, words_[0][2] = four.z;
            words_[1][0] = four.w, words_[1][1] = two.x, words_[1][2] = two.y;
        }
        __device__ void store(Shared<uint4> chunk) const {
            chunk.store(lane_id(), uint4{words_[0][0], words_[0][1], words_[0][2], words_[1][0]});
            chunk.as<uint2>().store(CODES_OF_SECOND / 8 + lane_id(), uint2{words_[1][1], words_[1][2]});
        }
        __device__ void put(int w, int i, uint32_t has) {
            int n = REGISTERS * (w % HALF) + i;
            uint32_t(&words)[CODE_WORDS] = words_[w / HALF];
            if (n == 0) room_ = false, last_ = 0;
            uint32_t code = (room_ ? AFTER_ROOM : AFTER_NONE) >> 4 * has & 15;
            room_ = code & ROOM;
            (n / EIGHT < CODE_WORDS ? words[n / EIGHT] : last_) |= code % ROOM << 4 * (n % EIGHT);
            if (n < EIGHT * EIGHTS - 1) return;
#pragma unroll
            for (int k = 0; k < CODE_WORDS; k++) words[k] |= (last_ >> k & LOWEST) << 3;
        }
        // Of the eight that a register is in.
        __device__ uint32_t codes(int w, int i) const {
            int first = w % HALF * 2;
            uint32_t lower = eight(w / HALF, first), upper = eight(w / HALF, first + 1);
            return i < EIGHT ? lower : upper;  // which is in a register, whatever i is
        }
        __device__ uint32_t code(int w, int i) const { return codes(w, i) >> 4 * (i % EIGHT) & 7; }
        __device__ bool has(int w, int i, int h) const { return (h ? HAVE_SECOND : HAVE_FIRST) >> code(w, i) & 1; }

        __device__ int values(int half) const { return count<HAVE_FIRST>(half) + count<HAVE_SECOND>(half); }
        __device__ int positions(int half) const { return 2 * count<BEGIN>(half); }

        // Whether these codes are those of the weights that they say are there.
        __device__ bool are_sound() const {
            Places own;
#pragma unroll
            for (int w = 0; w < WORDS; w++)
#pragma unroll
                for (int i = 0; i < REGISTERS; i++) own.put(w, i, has(w, i, 0) | has(w, i, 1) << 1);
            bool same = true;
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int k = 0; k < CODE_WORDS; k++) same &= own.words_[half][k] == words_[half][k];
            return same;
        }
    };

    // Words of a bank are one below the other. Where the one before `position` stands:
    static constexpr int TO_NEXT = LINE / 4;
    static __device__ int before(int bank, int position) { return (position / 2 - 1) * TO_NEXT + bank; }

    class Writer {
        static constexpr uint32_t FULL = 1 << 16;  // words without room, and pairs of both, are that or more

        Shared<uint32_t> words_;
        int at_;
        uint32_t word_ = FULL;

      public:
        __device__ Writer(Shared<uint4> chunk, int bank, int position)
            : words_(chunk.as<uint32_t>() + LINES / 4), at_(before(bank, position)) {}
        __device__ void put(uint32_t pair) {
            uint32_t values = half_of(pair, 0) ? pair : half_of(pair, 1);  // as a word begins
            bool begins = values >= FULL || (values && word_ >= FULL);
            word_ = begins ? values : word_ | values << 16;
            at_ += begins ? TO_NEXT : 0;
            if (values) words_.store(at_, word_);
        }
    };

    template <template <class> class Memory>
    class Reader {
        Memory<uint32_t> words_;
        int at_;
        uint32_t word_ = 0;

      public:
        __device__ Reader(Memory<uint4> chunk, int bank, int position)
            : words_(chunk.template as<uint32_t>() + LINES / 4), at_(before(bank, position)) {}
        __device__ uint32_t pair(const Places& places, int w, int i) {
            if (BEGIN >> places.code(w, i) & 1) word_ = words_.load(at_ += TO_NEXT);
            uint32_t codes = places.codes(w, i) >> i % EIGHT / 4 * 16, nth = i % 4;
            uint32_t selectors = prmt(first_selectors(codes), second_selectors(codes), 0x40 + 0x11 * nth);
            return prmt(word_, 0, selectors);
        }
    };
};

}  // namespace
}  // namespace lscd::coded
