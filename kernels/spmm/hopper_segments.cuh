// The end of the Hopper kernel: C from the sums that warps have written, in a fixed order.
//
//   a block has 64 rows of 4 columns of C; its threads add up the segments of these rows, slice after
//   slice and, in a slice, warp after warp: the same bits in every run, without atomics
//
//   thread     4 rows of a column; a part of the slices
//   shared     first and end of the segments of each slice | sums [parts][columns][64 rows]
#pragma once
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

__device__ inline void add_quad(float4& sum, uint4 value) {
    sum.x += __int_as_float(value.x), sum.y += __int_as_float(value.y);
    sum.z += __int_as_float(value.z), sum.w += __int_as_float(value.w);
}

// --- after all thread blocks ---

template <class T, int BLOCK_N>
struct SegmentSums {
    static constexpr int PARTS = 2, QUADS = CHUNK_ROWS / 4, COLUMNS = 4, PER_PART = QUADS * COLUMNS;
    static constexpr int THREADS = PARTS * PER_PART, BLOCKS = BLOCK_N / COLUMNS;  // of the same rows
    static constexpr int UNDER_WAY = 4;  // loads of a thread at once

    const HopperProblem& p;
    Shared<int> bounds;   // [slices][2]
    Shared<float4> sums;  // [PARTS][COLUMNS][16]
    int quad = threadIdx.x % QUADS, column = threadIdx.x / QUADS % COLUMNS;
    int part = threadIdx.x / PER_PART, n0 = blockIdx.y * COLUMNS;
    int m = blockIdx.x * CHUNK_ROWS + threadIdx.x % CHUNK_ROWS;  // the row that a thread stores
    float bias = 0;
    static_assert(THREADS == SUMS_THREADS && THREADS % CHUNK_ROWS == 0);

    __host__ __device__ static int bounds_bytes(int slices) { return round_up(slices * 8, 16); }
    __host__ static int shared_bytes(int slices) {
        return bounds_bytes(slices) + THREADS * int(sizeof(float4));
    }
    __device__ SegmentSums(const HopperProblem& p, Shared<int> memory)
        : p(p), bounds(memory), sums((memory + bounds_bytes(p.slices) / 4).template as<float4>()) {}

    // Which segments there are is known before the product has ended, not their sums. Nor is the bias:
    // this grid may begin before those before the product have ended, and one of them may write it.
    __device__ void find() {
        for (int i = threadIdx.x; i < 2 * p.slices; i += THREADS)
            bounds.store(i, __ldg(p.segments + i / 2 * p.row_blocks + blockIdx.x + i % 2));
    }

    // The segments of a part, one after the other; -1 behind the last.
    struct Walk {
        const Shared<int>& bounds;
        int slice, last, segment, end;
        __device__ Walk(const Shared<int>& bounds, int slice, int last)
            : bounds(bounds), slice(slice), last(last), segment(0), end(0) {}
        __device__ int next() {
            for (; segment == end && slice < last; slice++)
                segment = bounds.load(2 * slice), end = bounds.load(2 * slice + 1);
            return segment == end ? -1 : segment++;
        }
    };

    __device__ float4 load(int segment) const {
        if (segment < 0) return {};
        int64_t place = int64_t(blockIdx.y / BLOCKS) * p.most_segments + segment;
        auto from = reinterpret_cast<const float4*>(p.partial) +
                    (place * BLOCKS + blockIdx.y % BLOCKS) * PER_PART;
        return ld_global(from + column * QUADS + quad);
    }

    __device__ void add() {
        if (m < p.M) bias = bias_of<T>(p, m);
        float4 sum = {};
        int each = ceil_div(p.slices, PARTS), first = part * each;
        Walk walk(bounds, first, n0 + column < p.N ? min(p.slices, first + each) : first);
        for (int segment = walk.next(); segment >= 0; segment = walk.next()) {
            float4 values[UNDER_WAY];
            values[0] = load(segment);
#pragma unroll
            for (int i = 1; i < UNDER_WAY; i++) values[i] = load(walk.next());
#pragma unroll
            for (const float4& value : values)
                sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
        }
        sums.store((part * COLUMNS + column) * QUADS + quad, sum);
    }

    __device__ void store() const {
        auto all = sums.template as<float>();
        for (int i = threadIdx.x; i < CHUNK_ROWS * min(COLUMNS, p.N - n0); i += THREADS) {
            if (m >= p.M) continue;
            float sum = all.load(i);
#pragma unroll
            for (int other = 1; other < PARTS; other++)
                sum += all.load(other * COLUMNS * CHUNK_ROWS + i);
            T* to = static_cast<T*>(p.C) + (n0 + i / CHUNK_ROWS) * p.ldc + m;
            round_to(to, finished(p, sum, bias));
        }
    }
};

}  // namespace
}  // namespace lscd
