// Zero-row 2:4 on the GPU, pass one: which weights go to extra chunks, as kernels/cpu/encode/zero_row_24_queue.cpp
// finds them.
//
//   a block of four warps for 64 rows of a slice, a warp for a tile's 16 rows,
//   a lane for a group of three columns, or of level 1, of nested chunks too, or for a six, then for one of the queue
#include "zero_row_24.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

// The queue of one tile, which a warp fills, in order.
struct Filling {
    uint32_t* words;
    int length = 0;

    // Appends the words of the lanes that have rows.
    __device__ void append(int column, uint32_t rows) {
        unsigned have = __ballot_sync(ALL_LANES, rows != 0);
        uint32_t* word = words + length + __popc(have & lanes_below());
        if (rows) st_global(word, uint32_t(column) << 16 | rows);
        length += __popc(have);
        __syncwarp();
    }
    // The same of several words of each lane; column(i): that of its ith.
    template <int N, class Column>
    __device__ void append_all(const uint32_t (&rows)[N], Column column) {
        int count = 0;
#pragma unroll
        for (int i = 0; i < N; i++) count += rows[i] != 0;
        int after = inclusive_scan(count);
        uint32_t* word = words + length + after - count;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (rows[i]) st_global(word++, uint32_t(column(i)) << 16 | rows[i]);
        length += __shfl_sync(ALL_LANES, after, LANES - 1);
        __syncwarp();
    }
    // Of each lane's six the columns that some rows have between two others.
    template <class Column>
    __device__ void append_between(const uint32_t (&rows)[SIX], Column column) {
        uint32_t found[SIX];
#pragma unroll
        for (int i = 0; i < SIX; i++) found[i] = between(rows, i);
        append_all(found, column);
    }
    // The same of sixes of the queue, which are made whole first, until there are no more.
    __device__ void append_waiting() {
        for (int done = 0; SIX * done < length;) {
            int whole = (length + SIX - 1) / SIX;
            if (lane_id() < SIX * whole - length) st_global(words + length + lane_id(), uint32_t(NOTHING) << 16);
            __syncwarp();
            Queue queue{words, SIXES, SIX * whole};
            length = SIX * whole;
            for (; done < whole; done = min(done + LANES, whole)) {
                int nth = done + lane_id();
                uint32_t rows[SIX];
#pragma unroll
                for (int k = 0; k < SIX; k++) rows[k] = queue.rows(SIX * nth + k);  // 0 behind the last
                append_between(rows, [&](int i) { return queue.column(SIX * nth + i); });
            }
        }
    }
    // Where a row has all three columns of a group, the third waits once more. All groups that are
    // complete now look at the same time; one or two columns at the end have no such row.
    __device__ void append_thirds() {
        for (int done = 0; 3 * done + 2 < length;) {
            int batch = min(length / 3 - done, LANES);
            Queue queue{words, PAIRS, 3 * (done + batch)};
            int group = done + lane_id();
            append(queue.column(3 * group + 2), queue.full(group));
            done += batch;
        }
    }
};

// What a lane has found in its groups of 16 rows.
struct Found {
    const Source& dense;
    uint32_t exponent;
    int nnz = 0;
    bool bad = false;

    // Rows, from `row` on, that have three weights from column k on; columns end at `end`.
    __device__ uint32_t full(int64_t row, int64_t k, int64_t end) {
        uint32_t rows = 0;
#pragma unroll 4
        for (int r = 0; r < TILE_ROWS; r++) {
            int present = 0;
            for (int i = 0; i < 3; i++) {
                uint32_t weight = k + i < end ? dense.load(row + r, k + i) : 0;
                present += weight != 0;
                bad |= (weight & exponent) == exponent;
            }
            nnz += present;
            rows |= uint32_t(present == 3) << r;
        }
        return rows;
    }
    // By column, the rows that have a weight in a six whose first column is k.
    __device__ void six(int64_t row, int64_t k, int64_t end, uint32_t (&rows)[SIX]) {
#pragma unroll
        for (int i = 0; i < SIX; i++) {
            int64_t col = k + column_of_six(0, i);
            rows[i] = 0;
#pragma unroll 4
            for (int r = 0; r < TILE_ROWS; r++) {
                uint32_t weight = col < end ? dense.load(row + r, col) : 0;
                rows[i] |= uint32_t(weight != 0) << r;
                bad |= (weight & exponent) == exponent;
            }
            nnz += __popc(rows[i]);
        }
    }
};

// KIND: PAIRS for packed streams, too.
template <Kind KIND>
__global__ void __launch_bounds__(TILES * LANES)
    queue(Source dense, Grid grid, uint32_t exponent, uint32_t* queues, int* queued, int* nnz,
          int* nonfinite) {
    Block block(grid, blockIdx.x);
    int64_t tile = int64_t(blockIdx.x) * TILES + warp_id();
    int64_t row = block.row + warp_id() * TILE_ROWS;
    Filling filling{queues + tile * queue_capacity(grid.slice_cols, KIND)};
    Found found{dense, exponent};
    int64_t end = block.col + block.cols;
    int width = KIND == SIXES ? SIX : KIND == NESTED || grid.levels ? 9 : 3;
    for (int c = 0; c < block.cols; c += width * LANES) {
        if constexpr (KIND == SIXES) {
            int six = c / SIX + lane_id(), col = six * SIX / COLS * COLS;
            int first = col + column_of_six(six % (COLS / SIX), 0);
            uint32_t rows[SIX];
            found.six(row, block.col + first, end, rows);
            filling.append_between(rows, [&](int i) { return first + column_of_six(0, i); });
        } else if constexpr (KIND == NESTED) {
            auto column = [&](int step) {
                return c + lane_id() / 8 * NESTED_COLS + first_column(NESTED, 8 * step + lane_id() % 8);
            };
            uint32_t rows = ~0u;
            for (int step = 0; step < 3; step++) rows &= found.full(row, block.col + column(step), end);
            filling.append(column(1) + 1, rows);
        } else {
            int col = c + width * lane_id();
            uint32_t rows = ~0u;
            for (int i = 0; i < width; i += 3) rows &= found.full(row, block.col + col + i, end);
            filling.append(col + width / 2, rows);
        }
    }
    if constexpr (KIND == SIXES) filling.append_waiting();
    else filling.append_thirds();
    int count = __reduce_add_sync(ALL_LANES, found.nnz);
    bool bad = __any_sync(ALL_LANES, found.bad);
    if (lane_id()) return;
    st_global(queued + tile, filling.length);
    st_global(nnz + tile, count);
    if (bad) st_global(nonfinite, 1);
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::zero_row_24;

// queues [blocks][4][capacity], of which queued [blocks][4] words are filled; nnz
// [blocks][4]: of each 16 rows of a slice. nonfinite [1], of zeros: 1 if a weight has all bits of
// `exponent`.
LSCD_EXPORT int lscd_zero_row_24_queue(const uint16_t* dense, int64_t M, int64_t K,
                                       int64_t slice_cols, int64_t levels, int64_t kind,
                                       int64_t exponent, uint32_t* queues, int* queued, int* nnz, int* nonfinite,
                                       cudaStream_t stream) {
    Grid grid{M, K, slice_cols, levels, Kind(kind)};
    auto kernel = kind == SIXES ? queue<SIXES> : kind == NESTED ? queue<NESTED> : queue<PAIRS>;
    return launch(kernel, grid.blocks(), TILES * LANES, stream, Source(dense, M, K), grid,
                  uint32_t(exponent), queues, queued, nnz, nonfinite);
}
