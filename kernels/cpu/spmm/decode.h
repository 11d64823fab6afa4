// Decoders: 64 columns of a row block, from its encoding into strips. This file has the interface,
// and the two formats whose inner step the wider instruction sets replace (decode_avx2.h,
// decode_avx512.h); formats that store an index per value are in decode_indexed.h, those of the
// Hopper kernels in decode_chunks.h.
#pragma once
#include "strip.h"

namespace lscd {
namespace {

struct Decoder {
    const i64 rows;  // of a row block: 16, 64 or 128, MOST_ROWS
    explicit Decoder(i64 rows) : rows(rows) {}
    // Whether it has the memory that it needs.
    virtual bool ready() const { return true; }
    // Decodes rows x 64 elements into rows / 16 strips.
    virtual void block(i64 row_block, i64 k_block, u16* strips) = 0;

  protected:
    ~Decoder() = default;
};

// Values of a TCA-BME GroupTile, which steps may read up to 64 bytes past their end: where the
// array ends earlier, they come from a copy with room behind it.
struct PaddedTail {
    alignas(64) u16 buffer[64 * 64 + 64];

    const u16* values(const u16* all, i64 begin, i64 end, i64 total) {
        if (end + 32 <= total) return all + begin;
        memcpy(buffer, all + begin, (end - begin) * sizeof(u16));
        return buffer;
    }
};

// TCA-BME. A: bitmap, gt_offset, values. Its bitmaps lie in pairs, top and bottom: 16 rows x 8
// columns. Eight pairs, from left to right, are a strip, and four strips a block: one GroupTile.
// Step: static const u16* step(const u64* bitmap, const u16* values, u16* pair_lines): decodes
// two bitmaps (top, bottom) into 4 pair lines and returns the next values.
template <class Step>
struct TcaBmeDecoder final : Decoder {
    const u64* bitmap;
    const i32* gt_offset;
    const u16* all_values;
    i64 groups_k, total;
    const u64* tiles = nullptr;   // of the block in hand, advanced by step
    const u16* values = nullptr;
    PaddedTail tail;

    explicit TcaBmeDecoder(const Problem& p)
        : Decoder(64), bitmap((const u64*)p.A[0]), gt_offset((const i32*)p.A[1]),
          all_values((const u16*)p.A[2]), groups_k(ceil_div(p.K, BLOCK_K)), total(p.A_values) {}

    void open(i64 row_block, i64 k_block) {
        i64 g = row_block * groups_k + k_block;
        values = tail.values(all_values, gt_offset[g], gt_offset[g + 1], total);
        tiles = bitmap + g * 64;
    }

    // The next 16 rows x 8 columns: 8 steps to a strip, 4 strips to a block.
    void step(u16* lines) {
        values = Step::step(tiles, values, lines);
        tiles += 2;
    }

    void block(i64 row_block, i64 k_block, u16* strips) override {
        open(row_block, k_block);
        for (i64 i = 0; i < 32; i++) step(strips + i * 4 * 32);
    }
};

struct PortableBitmapStep {
    static const u16* step(const u64* bitmap, const u16* values, u16* lines) {
        for (i64 row = 0; row < STRIP_ROWS; row++) {
            u32 byte = bitmap[row / 8] >> (8 * (row % 8)) & 0xff;
            for (i64 k = 0; k < 8; k++, byte >>= 1) {
                lines[strip_index(row, k)] = *values & -(byte & 1);
                values += byte & 1;
            }
        }
        return values;
    }
};

// Dense. A: values.
// Step: static void step(const u16* rows, i64 stride, u16* pair_lines): transposes a whole
// 16 x 64 strip of row-major A. One strip to a block: the hardware prefetches 16 rows at once well,
// and 64 badly.
template <class Step>
struct DenseDecoder final : Decoder {
    const u16* A;
    i64 M, K;
    alignas(64) u16 edge[STRIP];

    DenseDecoder(const u16* A, i64 M, i64 K) : Decoder(STRIP_ROWS), A(A), M(M), K(K) {}

    void block(i64 row_block, i64 k_block, u16* strip) override {
        i64 row = row_block * rows, k = k_block * BLOCK_K;
        if (row + rows <= M && k + BLOCK_K <= K)
            Step::step(A + row * K + k, K, strip);
        else
            Step::step(padded(row, k), BLOCK_K, strip);
    }

    // The strip at (row, k), which reaches beyond A, with zeros where A has nothing.
    const u16* padded(i64 row, i64 k) {
        memset(edge, 0, sizeof edge);
        for (i64 r = 0; r < min(STRIP_ROWS, M - row); r++)
            memcpy(edge + r * BLOCK_K, A + (row + r) * K + k, min(BLOCK_K, K - k) * sizeof(u16));
        return edge;
    }
};

struct PortableDenseStep {
    static void step(const u16* rows, i64 stride, u16* lines) {
        for (i64 row = 0; row < STRIP_ROWS; row++)
            for (i64 k = 0; k < BLOCK_K; k++) lines[strip_index(row, k)] = rows[row * stride + k];
    }
};

}  // namespace
}  // namespace lscd
