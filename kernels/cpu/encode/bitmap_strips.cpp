// Bitmaps and values for each lane (layout: bitmap_strips.h).
#include "banks_pack.h"
#include "bitmap_strips.h"

using namespace lscd;
using namespace lscd::bitmap_strips;

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT void lscd_bitmap_strips_size(const u16* dense, i64 M, i64 K, i32* sizes) {
    size_chunks<Layout>(dense, M, K, sizes);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_bitmap_strips_pack(const u16* dense, i64 M, i64 K, const i32* chunk_start,
                                         u8* data) {
    pack_chunks<Layout>(dense, M, K, chunk_start, data);
}
