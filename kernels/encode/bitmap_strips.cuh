// Bitmaps in strips on the GPU: what tells them from other chunks whose lanes have banks (banks.cuh). The bytes are
// drawn in kernels/cpu/encode/bitmap_strips.h.
#pragma once
#include "../common/bitmap_strips.cuh"
#include "banks.cuh"

namespace lscd::bitmap {
namespace {  // other formats have a Layout of their own

using namespace banks;

// Where values of a bank stand, one after the other, in halves behind the first line's begin: two in a line.
class Positions {
    static constexpr int TO_SECOND = 1, TO_NEXT_LINE = LINE / 2 - 1;
    int at_, step_;

  public:
    __device__ Positions(int bank, int position)
        : at_(position / 2 * (LINE / 2) + 2 * bank + position % 2),
          step_(position % 2 ? TO_NEXT_LINE : TO_SECOND) {}
    __device__ int next() {
        int at = at_;
        at_ += step_, step_ ^= TO_SECOND ^ TO_NEXT_LINE;
        return at;
    }
};

struct Layout : BitmapChunk {
    static __device__ int begin(int) { return 0; }

    class Places {
        uint32_t bits_[WORDS] = {};

        // Where half h of a register has a bit.
        static __device__ constexpr int bit_of(int i, int h) { return first_half_bit(i) + 8 * h; }

      public:
        Places() = default;
        template <template <class> class Memory>
        __device__ explicit Places(Memory<uint4> chunk) {
            uint4 four = chunk.load(lane_id());
            bits_[0] = four.x, bits_[1] = four.y, bits_[2] = four.z, bits_[3] = four.w;
        }
        __device__ void put(int w, int i, uint32_t has) {
            bits_[w] |= (has & 1) << bit_of(i, 0) | (has >> 1) << bit_of(i, 1);
        }
        __device__ bool has(int w, int i, int h) const { return bits_[w] >> bit_of(i, h) & 1; }
        __device__ int values(int half) const {
            return __popc(bits_[HALF * half]) + __popc(bits_[HALF * half + 1]);
        }
        __device__ int positions(int half) const { return values(half); }
        __device__ bool are_sound() const { return true; }  // any bits are a bitmap
        __device__ void store(Shared<uint4> chunk) const {
            chunk.store(lane_id(), uint4{bits_[0], bits_[1], bits_[2], bits_[3]});
        }
    };

    class Writer {
        Shared<uint16_t> values_;
        Positions positions_;

      public:
        __device__ Writer(Shared<uint4> chunk, int bank, int position)
            : values_(chunk.as<uint16_t>() + LINES / 2), positions_(bank, position) {}
        __device__ void put(uint32_t pair) {
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (uint32_t weight = half_of(pair, h)) values_.store(positions_.next(), uint16_t(weight));
        }
    };

    template <template <class> class Memory>
    class Reader {
        Memory<uint16_t> values_;
        Positions positions_;

      public:
        __device__ Reader(Memory<uint4> chunk, int bank, int position)
            : values_(chunk.template as<uint16_t>() + LINES / 2), positions_(bank, position) {}
        __device__ uint32_t pair(const Places& places, int w, int i) {
            uint32_t halves[2] = {};
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (places.has(w, i, h)) halves[h] = values_.load(positions_.next());
            return prmt(halves[0], halves[1], 0x5410);
        }
    };
};

}  // namespace
}  // namespace lscd::bitmap
