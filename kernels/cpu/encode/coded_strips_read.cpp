// Codes of pairs and words for each lane, the way back (layout: coded_strips.h).
#include "banks_read.h"
#include "coded_strips.h"

using namespace lscd;
using namespace lscd::coded_strips;

void lscd::unpack_coded_strips(const void* const* arrays, i64 M, i64 K, i64 row_block, u16* dense) {
    unpack_row_block<Bytes<Layout>>(arrays, M, K, row_block, dense);
}

// Problem by chunk: 1 its size, 2 banks that are not each a lane's, 3 other lines than its values
// need, 4 a value outside of the matrix, 5 a stored +0, 6 a non-zero that is no value, 7 codes that no
// weights have. The offsets are sound.
LSCD_EXPORT void lscd_coded_strips_check(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                          i64* found) {
    check_chunks<Bytes<Layout>>(data, chunk_start, M, K, found, problem<Layout>);
}

// nnz [chunks].
LSCD_EXPORT void lscd_coded_strips_count(const u8* data, const i32* chunk_start, i64 chunks,
                                          i32* nnz) {
    count_chunks<Layout>(data, chunk_start, chunks, nnz);
}

// Writes the non-zeros, and nothing else, into dense [M, K].
LSCD_EXPORT void lscd_coded_strips_unpack(const u8* data, const i32* chunk_start, i64 M, i64 K,
                                           u16* dense) {
    unpack_chunks<Bytes<Layout>>(data, chunk_start, M, K, dense);
}
