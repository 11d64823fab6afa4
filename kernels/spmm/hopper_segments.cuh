// The end of the Hopper kernel: C from the sums that warps have written, in a fixed order.
//
//   a block has 64 rows of C; its threads add up the segments of these rows, slice after slice and,
//   in a slice, warp after warp: the same bits in every run, without atomics
#pragma once
#include "hopper.cuh"

namespace lscd {
namespace {

// Groups of threads of add_segments; each adds up a part of the slices.
__host__ __device__ constexpr int parts(int block_n) { return block_n <= 16 ? 4 : 64 / block_n; }

template <class T, int BLOCK_N>
struct SegmentSums {
    static constexpr int PARTS = parts(BLOCK_N);

    const HopperProblem& p;
    Shared<float> sums;  // [PARTS][BLOCK_N][64]
    int row = threadIdx.x % CHUNK_ROWS, part = threadIdx.x / CHUNK_ROWS;
    int slice, last_slice, first, last;  // segments [first, last) of the slice

    __device__ SegmentSums(const HopperProblem& p, Shared<float> sums) : p(p), sums(sums) {
        int per_part = ceil_div(p.slices, PARTS);
        slice = part * per_part, last_slice = min(p.slices, slice + per_part);
        find(min(slice, p.slices - 1));
    }
    __device__ void find(int slice) {
        const int32_t* block = p.segments + slice * p.row_blocks + blockIdx.x;
        first = __ldg(block), last = __ldg(block + 1);
    }
    __device__ int place(int part, int n) const { return (part * BLOCK_N + n) * CHUNK_ROWS + row; }

    __device__ void add() {
        float sum[BLOCK_N] = {};
        int64_t pass = int64_t(blockIdx.y) * p.most_segments;
        while (slice < last_slice) {
            int s = first, end = last;
            if (++slice < last_slice) find(slice);
            for (; s < end; s++)
#pragma unroll
                for (int n = 0; n < BLOCK_N; n++)
                    sum[n] += ld_global(p.partial + ((pass + s) * BLOCK_N + n) * CHUNK_ROWS + row);
        }
#pragma unroll
        for (int n = 0; n < BLOCK_N; n++) sums.store(place(part, n), sum[n]);
    }

    __device__ void store() const {
        int m = blockIdx.x * CHUNK_ROWS + row, n0 = blockIdx.y * BLOCK_N;
        if (m >= p.M) return;
        for (int n = part; n < min(BLOCK_N, p.N - n0); n += PARTS) {
            float all = sums.load(place(0, n));
#pragma unroll
            for (int i = 1; i < PARTS; i++) all += sums.load(place(i, n));
            round_to(static_cast<T*>(p.C) + (n0 + n) * p.ldc + m, all);
        }
    }
};

}  // namespace
}  // namespace lscd
