// From chunks back to rows: what products on the CPU (spmm/decode_chunks.h) take from the formats of
// the Hopper kernels. Each writes the non-zeros of one row block, 64 rows of A [M, K] or the last
// ones, and nothing else, into dense [rows, K]. `arrays` are those of the encoding, in this order:
#pragma once
#include "../common.h"

namespace lscd {

using UnpackRows = void(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense);

UnpackRows unpack_zero_row_24;         // chunk_start, first_chunk, geometry, data
UnpackRows unpack_zero_row_24_strips;  // chunk_start, geometry, data
UnpackRows unpack_lane_24_strips;      // chunk_start, data
UnpackRows unpack_bitmap_strips;       // chunk_start, data
UnpackRows unpack_coded_strips;        // chunk_start, data

}  // namespace lscd
