// Bitmaps and values for each lane, in two passes (layout: bitmap_strips.h).
#include <algorithm>

#include "bitmap_strips.h"

using namespace lscd;
using namespace lscd::bitmap_strips;

namespace {

// Bits of a lane in 64 columns by order; upper, lower: non-zeros of its rows there.
u32 orders_of(i64 lane, u64 upper, u64 lower) {
    constexpr u64 PAIRS = 0x0303030303030303;  // of eight columns, the first two
    i64 shift = 2 * (lane % 4);
    u64 bits = (upper >> shift & PAIRS) | (lower >> shift & PAIRS) << 2;  // four in each byte
    bits = (bits | bits >> 4) & 0x00ff00ff00ff00ff;
    bits = (bits | bits >> 8) & 0x0000ffff0000ffff;
    return u32(bits | bits >> 16);
}

// Lanes by a number, the least first; of equals the lower lane.
template <class Number>
void sort(u8 (&lanes)[LANES], Number number) {
    for (i64 lane = 0; lane < LANES; lane++) lanes[lane] = u8(lane);
    auto key = [&](i64 lane) { return LANES * number(lane) + lane; };
    std::sort(lanes, lanes + LANES, [&](u8 a, u8 b) { return key(a) < key(b); });
}

Places places_of(const ChunkWeights& weights) {
    Places places;
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 half = 0; half < HALVES; half++) {
            const u64* upper = weights.nonzero[lane / 4] + 2 * half;
            const u64* lower = weights.nonzero[lane / 4 + 8] + 2 * half;
            u64 second = orders_of(lane, upper[1], lower[1]);
            places.orders[lane][half] = orders_of(lane, upper[0], lower[0]) | second << 32;
        }
    u8 above[LANES], below[LANES];
    sort(above, [&](i64 lane) { return places.count(lane, 0); });
    sort(below, [&](i64 lane) { return ORDERS - places.count(lane, 1); });
    for (i64 i = 0; i < LANES; i++) places.banks[below[i]] = above[i];
    return places;
}

void put_chunk(u8* chunk, const ChunkWeights& weights) {
    Places places = places_of(weights);
    memset(chunk, 0, LINES + LINE * places.lines());
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 w = 0; w < WORDS; w++) {
            u32 word = word_of_orders(u32(places.orders[lane][w / 2] >> 32 * (w % 2)));
            memcpy(chunk + 4 * (WORDS * lane + w), &word, 4);
        }
    memcpy(chunk + BANKS, places.banks, LANES);
    places.for_each_value([&](i64 row, i64 column, i64 at) {
        memcpy(chunk + at, &weights.weight[row][column], 2);
    });
}

}  // namespace

// sizes [chunks]: in units of 16 bytes.
LSCD_EXPORT void lscd_bitmap_strips_size(const u16* dense, i64 M, i64 K, i32* sizes) {
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        sizes[c] = i32((LINES + LINE * places_of(ChunkWeights(dense, A, c)).lines()) / UNIT);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT void lscd_bitmap_strips_pack(const u16* dense, i64 M, i64 K, const i32* chunk_start,
                                         u8* data) {
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        put_chunk(data + UNIT * chunk_start[c], ChunkWeights(dense, A, c));
}
