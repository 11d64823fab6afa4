// The end of the Hopper kernel: C from the sums that warps have written, in a fixed order.
//
//   a block has 64 rows of some columns of C; its threads add up the segments of these rows, slice after
//   slice and, in a slice, warp after warp, and the sums of two halves of the slices last: the same bits
//   in every run, without atomics
//
//   thread     4 rows of a column; both halves, or one of them and the thread 16 lanes on the other
#pragma once
#include "../common/config.cuh"
#include "hopper.cuh"

namespace lscd {
namespace {

// --- in a thread block: warps that end with the same block of A ---

// Whether sums of so many columns are added up in shared memory, [BLOCK_N][MERGE_PITCH] of each warp.
template <int BLOCK_N>
constexpr bool MERGES = BLOCK_N <= 16;
constexpr int MERGE_PITCH = CHUNK_ROWS + 4;  // floats: no bank conflicts

// WarpShare::merge: the warps [first, first + span) that end with the warp's last block. `members` of
// them have chunks of it, and this one is the rank-th of those; the others have none at all.
struct Merged {
    int first, span, rank, members;
    __device__ explicit Merged(int numbers)
        : first(numbers & 255), span(numbers >> 8 & 255), rank(numbers >> 16 & 255),
          members(numbers >> 24) {}
    __device__ bool several() const { return span > 1; }
    // Four rows each, that the members add up; none where there is nothing to add.
    __device__ int quads(int block_n) const {
        return several() && members ? block_n * CHUNK_ROWS / 4 : 0;
    }
};

__device__ inline float4 floats(const uint4& bits) {
    return {__int_as_float(bits.x), __int_as_float(bits.y), __int_as_float(bits.z), __int_as_float(bits.w)};
}
__device__ inline void add_quad(float4& sum, const float4& value) {
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
}

// --- after all thread blocks ---

// Of shared memory, as CUDA gives it out: first and end of the segments of each slice.
inline int bounds_bytes(const HopperProblem& p) { return round_up(p.slices * 8, SHARED_UNIT); }

// PARTS threads share the two halves of the slices: each has one, or one has both.
template <class T, int BLOCK_N, int PARTS>
struct SegmentSums {
    static constexpr int HALVES = 2, MINE = HALVES / PARTS, QUADS = CHUNK_ROWS / 4;
    static constexpr int COLUMNS = SUMS_THREADS / (QUADS * PARTS);
    static constexpr int BLOCKS = BLOCK_N / COLUMNS;           // of the same rows
    static constexpr int UNDER_WAY = PARTS == HALVES ? 4 : 3;  // loads of a half at once: 2 x 4 would spill
    static_assert(QUADS * HALVES == 32 && BLOCK_N % COLUMNS == 0);

    const HopperProblem& p;
    Shared<int> bounds;  // [slices][2]
    int quad = threadIdx.x % QUADS, part = threadIdx.x / QUADS % PARTS;
    int column = threadIdx.x / (QUADS * PARTS), n = blockIdx.y * COLUMNS + column;
    int m = blockIdx.x * CHUNK_ROWS + quad * 4;

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
        if (segment < 0) return {};
        int64_t place = int64_t(blockIdx.y / BLOCKS) * p.most_segments + segment;
        int in_segment = blockIdx.y % BLOCKS * COLUMNS + column;
        auto partial = reinterpret_cast<const float4*>(p.partial);
        return ld_global(partial + (place * BLOCK_N + in_segment) * QUADS + quad);
    }

    __device__ void add(Batch batch) const {
        float bias[4] = {};
        if (p.bias)
            for (int i = 0; i < 4; i++)
                if (m + i < p.M) bias[i] = bias_of<T>(p, m + i);
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
        if (part == 0 && n < p.N) store(sum[0], bias);
    }

  private:
    __device__ static float4 of_other_part(const float4& sum) {
        auto other = [](float value) { return __shfl_down_sync(~0u, value, QUADS); };
        return {other(sum.x), other(sum.y), other(sum.z), other(sum.w)};
    }

    // Four rows of a column: at once, unless A or C do not let them.
    __device__ void store(const float4& sum, const float (&bias)[4]) const {
        float rows[] = {sum.x, sum.y, sum.z, sum.w};
        for (int i = 0; i < 4; i++) rows[i] = finished(p, rows[i], bias[i]);
        T* to = static_cast<T*>(p.C) + n * p.ldc + m;
        if (m + 4 <= p.M && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
            uint2 words = {bits_of<T>(rows[0], rows[1]), bits_of<T>(rows[2], rows[3])};
            st_global(reinterpret_cast<uint2*>(to), words);
        } else {
            for (int i = 0; i < 4 && m + i < p.M; i++) round_to(to + i, rows[i]);
        }
    }
};

}  // namespace
}  // namespace lscd
