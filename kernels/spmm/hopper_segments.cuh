// The end of the Hopper kernel: C from the sums that warps have written, in a fixed order.
//
//   a block has 64 rows of some columns of C; its threads add up the segments of these rows, slice after
//   slice and, in a slice, warp after warp, and the sums of two halves of the slices last: the same bits
//   in every run, without atomics
//
//   thread     a quad, until four of them have four rows of a column each; both halves, or one of them and the
//              thread 16 lanes on the other
#pragma once
#include "../common/config.cuh"
#include "hopper.cuh"

namespace lscd {
namespace {

// --- in a thread block: warps that end with the same block of A ---

// Whether sums of so many columns are added up in shared memory.
template <int BLOCK_N>
constexpr bool MERGES = BLOCK_N <= 16;
// Where the i-th quad of a pair of columns stands there: no bank conflicts.
constexpr int MERGE_PAIR_BYTES = PAIR_QUADS * 16 + 32;
__device__ inline Address merged_at(Address quads, int pair, int i) {
    return quads + pair * MERGE_PAIR_BYTES + i * 16;
}

// WarpShare::merge: the warps [first, first + span) that end with the warp's last block. `members` of
// them have chunks of it, and this one is the rank-th of those; the others have none at all.
struct Merged {
    int first, span, rank, members;
    __device__ explicit Merged(int numbers)
        : first(numbers & 255), span(numbers >> 8 & 255), rank(numbers >> 16 & 255),
          members(numbers >> 24) {}
    __device__ bool several() const { return span > 1; }
    // That the members add up; none where there is nothing to add.
    __device__ int quads(int block_n) const { return several() && members ? quads_in(block_n) : 0; }
};

__device__ inline float4 floats(const uint4& bits) {
    return {__int_as_float(bits.x), __int_as_float(bits.y), __int_as_float(bits.z), __int_as_float(bits.w)};
}
__device__ inline uint4 bits(const float4& floats) {
    auto of = [](float one) { return uint32_t(__float_as_int(one)); };
    return {of(floats.x), of(floats.y), of(floats.z), of(floats.w)};
}

// --- after all thread blocks ---

// Of shared memory, as CUDA gives it out: first and end of the segments of each slice.
inline int bounds_bytes(const HopperProblem& p) { return round_up(p.slices * 8, SHARED_UNIT); }

// The first quad of a segment in a pass.
template <int BLOCK_N>
__device__ float4* quads_of(const HopperProblem& p, int pass, int segment) {
    int64_t place = int64_t(pass) * p.most_segments + segment;
    return reinterpret_cast<float4*>(p.partial) + place * quads_in(BLOCK_N);
}

// PARTS threads share the two halves of the slices: each has one, or one has both.
template <class T, int BLOCK_N, int PARTS>
struct SegmentSums {
    static constexpr int HALVES = 2, MINE = HALVES / PARTS, QUADS = 32 / PARTS;  // of a warp
    static constexpr int EACH = quads_in(BLOCK_N);                               // of a segment
    static constexpr int UNDER_WAY = PARTS == HALVES ? 4 : 3;  // loads of a half at once: 2 x 4 would spill

    const HopperProblem& p;
    Shared<int> bounds;  // [slices][2]
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane / QUADS;
    int index = (blockIdx.y * (SUMS_THREADS / 32) + warp) * QUADS + lane % QUADS;  // of the quad, of all columns
    int g = index % 8, n = index / PAIR_QUADS * 2, m = blockIdx.x * PIECE_ROWS + index % PAIR_QUADS / 8 * 16 + g;
    const float4* sums = quads_of<BLOCK_N>(p, index / EACH, 0) + index % EACH;  // of the first segment

    __device__ SegmentSums(const HopperProblem& p, Shared<int> memory) : p(p), bounds(memory) {}

    // Which segments there are is known before the product has ended, not their sums. Nor is the bias:
    // this grid may begin before those before the product have ended, and one of them may write it.
    __device__ void find() {
        for (int i = threadIdx.x; i < 2 * p.slices; i += SUMS_THREADS)
            bounds.store(i, __ldg(p.segments + i / 2 * p.row_blocks + blockIdx.x + i % 2));
    }

    // The segments of a half, from `segment` on; those before `end` are of the slice before `slice`.
    struct Walk {
        int slice, last, segment, end;
    };
    // Those that the thread loads next; -1: none. To find them takes longer than to add them.
    struct Batch {
        Walk halves[MINE];
        int segment[MINE][UNDER_WAY];
        __device__ bool any() const { return segment[0][0] >= 0 || segment[MINE - 1][0] >= 0; }
    };
    __device__ Batch first() const {
        Batch batch;
        int slices = n < p.N ? p.slices : 0, each = ceil_div(slices, HALVES);
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            int slice = (part * MINE + i) * each;
            batch.halves[i] = {slice, min(slices, slice + each), 0, 0};
        }
        next(batch);
        return batch;
    }
    __device__ void next(Batch& batch) const {
#pragma unroll
        for (int i = 0; i < MINE * UNDER_WAY; i++)
            batch.segment[i % MINE][i / MINE] = next(batch.halves[i % MINE]);
    }
    __device__ int next(Walk& half) const {
        for (; half.segment == half.end && half.slice < half.last; half.slice++)
            half.segment = bounds.load(2 * half.slice), half.end = bounds.load(2 * half.slice + 1);
        return half.segment == half.end ? -1 : half.segment++;
    }

    __device__ float4 load(int segment) const {
        return segment < 0 ? float4{} : ld_global(sums + int64_t(segment) * EACH);
    }

    __device__ void add(Batch batch) const {
        float bias[2] = {};
        if (p.bias)
            for (int i = 0; i < 2; i++)
                if (m + 8 * i < p.M) bias[i] = bias_of<T>(p, m + 8 * i);
        float4 sum[MINE] = {};
        while (batch.any()) {
            float4 values[MINE][UNDER_WAY];
#pragma unroll
            for (int i = 0; i < MINE * UNDER_WAY; i++)
                values[i % MINE][i / MINE] = load(batch.segment[i % MINE][i / MINE]);
            next(batch);
#pragma unroll
            for (int half = 0; half < MINE; half++)
#pragma unroll
                for (const float4& value : values[half]) add_quad(sum[half], value);
        }
        add_quad(sum[0], MINE > 1 ? sum[MINE - 1] : of_other_part(sum[0]));
        store(sum[0], bias);
    }

  private:
    __device__ static float4 of_other_part(const float4& sum) {
        auto other = [](float value) { return __shfl_down_sync(~0u, value, QUADS); };
        return {other(sum.x), other(sum.y), other(sum.z), other(sum.w)};
    }

    // Lanes of four rows below each other exchange elements, and each stores four of a column: at once, unless A
    // or C do not let it.
    __device__ void store(const float4& sum, const float (&bias)[2]) const {
        bool odd = g & 1, second = g & 2;  // of two rows, of two pairs of rows
        uint32_t even_column = bits_of<T>(finished(p, sum.x, bias[0]), finished(p, sum.z, bias[1]));
        uint32_t odd_column = bits_of<T>(finished(p, sum.y, bias[0]), finished(p, sum.w, bias[1]));
        RowPairs two = pair_rows(even_column, odd_column, odd, 1);
        uint32_t others = __shfl_xor_sync(~0u, second ? two.upper : two.lower, 2);
        uint2 words = second ? uint2{others, two.lower} : uint2{two.upper, others};
        int row = m - g % 4 + second * 8, column = n + odd;
        if (part || column >= p.N) return;
        T* to = static_cast<T*>(p.C) + column * p.ldc + row;
        if (row + 4 <= p.M && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
            st_global(reinterpret_cast<uint2*>(to), words);
        } else {
            auto* bits = reinterpret_cast<uint16_t*>(to);
            for (int i = 0; i < 4 && row + i < p.M; i++)
                st_global(bits + i, uint16_t((i < 2 ? words.x : words.y) >> i % 2 * 16));
        }
    }
};

}  // namespace
}  // namespace lscd
