// Codes of pairs and words for each lane (layout: coded_strips.h).
#include "banks_pack.h"
#include "coded_strips.h"

using namespace lscd;
using namespace lscd::coded_strips;

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT void lscd_coded_strips_size(const u16* dense, i64 M, i64 K, i32* sizes) {
    size_chunks<Layout>(dense, M, K, sizes);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_coded_strips_pack(const u16* dense, i64 M, i64 K, const i32* chunk_start,
                                         u8* data) {
    pack_chunks<Layout>(dense, M, K, chunk_start, data);
}
