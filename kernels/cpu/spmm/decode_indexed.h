// Decoders of the formats that store where each value belongs: clear the strips, then scatter.
#pragma once
#include "decode.h"

namespace lscd {
namespace {

// Element (row, k) of a row block's 64 columns.
inline u16& element(u16* strips, i64 row, i64 k) {
    return strips[row / STRIP_ROWS * STRIP + strip_index(row % STRIP_ROWS, k)];
}

inline void clear(u16* strips, i64 rows) { memset(strips, 0, rows * BLOCK_K * sizeof(u16)); }

// Tiled-CSL (Flash-LLM, Algorithm 2). A: offsets, words.
struct TiledCslDecoder final : Decoder {
    const i32* offsets;
    const u32* words;
    i64 tiles_k;

    explicit TiledCslDecoder(const Problem& p)
        : Decoder(128), offsets((const i32*)p.A[0]), words((const u32*)p.A[1]),
          tiles_k(ceil_div(p.K, BLOCK_K)) {}

    void block(i64 row_block, i64 k_block, u16* strips) override {
        clear(strips, rows);
        i64 tile = row_block * tiles_k + k_block;
        for (i64 w = 4 * i64(offsets[tile]); w < 4 * i64(offsets[tile + 1]); w++) {
            u32 location = words[w] >> 16, row = location / 64;
            element(strips, row, location % 64 ^ 8 * (row % 8)) = u16(words[w]);
        }
    }
};

// CSR. A: row_ptr, col_idx, values. K blocks must come in order: a cursor follows each row.
struct CsrDecoder final : Decoder {
    const i32 *row_ptr, *col_idx;
    const u16* values;
    i64 M;
    i32 cursor[64];

    CsrDecoder(const Problem& p, i64 first_array)
        : Decoder(64), row_ptr((const i32*)p.A[first_array]),
          col_idx((const i32*)p.A[first_array + 1]), values((const u16*)p.A[first_array + 2]),
          M(p.M) {}

    void block(i64 row_block, i64 k_block, u16* strips) override {
        clear(strips, rows);
        add(row_block, k_block, strips);
    }

    void add(i64 row_block, i64 k_block, u16* strips) {
        i64 row0 = row_block * rows, k0 = k_block * BLOCK_K, count = min(rows, M - row0);
        if (k_block == 0) memcpy(cursor, row_ptr + row0, count * sizeof(i32));
        for (i64 r = 0; r < count; r++)
            for (i32 end = row_ptr[row0 + r + 1]; cursor[r] < end; cursor[r]++) {
                i64 k = col_idx[cursor[r]] - k0;
                if (k >= BLOCK_K) break;
                element(strips, r, k) = values[cursor[r]];
            }
    }
};

// 2:4. A: values, indices: a byte for eight columns, two of four values for each half of it.
struct TwoFourDecoder final : Decoder {
    const u16* values;
    const uint8_t* indices;
    i64 M, bytes_per_row;

    explicit TwoFourDecoder(const Problem& p)
        : Decoder(64), values((const u16*)p.A[0]), indices((const uint8_t*)p.A[1]), M(p.M),
          bytes_per_row(ceil_div(p.K, 8)) {}

    void block(i64 row_block, i64 k_block, u16* strips) override {
        clear(strips, rows);
        i64 first = k_block * 8, bytes = min(8, bytes_per_row - first);
        for (i64 r = 0; r < min(rows, M - row_block * rows); r++)
            for (i64 b = 0; b < bytes; b++) {
                i64 at = (row_block * rows + r) * bytes_per_row + first + b;
                for (i64 v = 0; v < 4; v++)
                    element(strips, r, 8 * b + v / 2 * 4 + (indices[at] >> 2 * v & 3)) =
                        values[4 * at + v];
            }
    }
};

// SparTA. A: the arrays of 2:4, then those of CSR, which fill places that 2:4 leaves free.
struct SpartaDecoder final : Decoder {
    TwoFourDecoder two_four;
    CsrDecoder rest;

    explicit SpartaDecoder(const Problem& p) : Decoder(64), two_four(p), rest(p, 2) {}

    void block(i64 row_block, i64 k_block, u16* strips) override {
        two_four.block(row_block, k_block, strips);
        rest.add(row_block, k_block, strips);
    }
};

}  // namespace
}  // namespace lscd
