// Writing chunks whose lanes have banks, in two passes (layout: banks.h).
#pragma once
#include <algorithm>

#include "banks.h"

namespace lscd::banks {

// Bits of a lane in 64 columns by order; upper, lower: non-zeros of its rows there.
inline u32 orders_in(i64 lane, u64 upper, u64 lower) {
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

template <class Layout>
Places<Layout> places_of(const ChunkWeights& weights) {
    Places<Layout> places;
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 half = 0; half < HALVES; half++) {
            const u64* upper = weights.nonzero[lane / 4] + 2 * half;
            const u64* lower = weights.nonzero[lane / 4 + 8] + 2 * half;
            u64 second = orders_in(lane, upper[1], lower[1]);
            places.orders[lane][half] = orders_in(lane, upper[0], lower[0]) | second << 32;
        }
    u8 above[LANES], below[LANES];
    sort(above, [&](i64 lane) { return places.end_of_first(lane); });
    sort(below, [&](i64 lane) { return ORDERS - places.positions(lane, 1); });
    for (i64 i = 0; i < LANES; i++) places.banks[below[i]] = above[i];
    return places;
}

template <class Layout>
void put_chunk(u8* chunk, const ChunkWeights& weights) {
    auto places = places_of<Layout>(weights);
    memset(chunk, 0, places.bytes());
    for (i64 lane = 0; lane < LANES; lane++)
        for (i64 half = 0; half < HALVES; half++) Layout::put(chunk, lane, half, places.orders[lane][half]);
    memcpy(chunk + Layout::BANKS, places.banks, LANES);
    places.for_each_value([&](i64 row, i64 column, i64 at) { store(chunk + at, weights.weight[row][column]); });
}

// sizes [chunks]: in units of 16 bytes.
template <class Layout>
void size_chunks(const u16* dense, i64 M, i64 K, i32* sizes) {
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        sizes[c] = i32(places_of<Layout>(ChunkWeights(dense, A, c)).bytes() / UNIT);
}

// data [16 * chunk_start[chunks]].
template <class Layout>
void pack_chunks(const u16* dense, i64 M, i64 K, const i32* chunk_start, u8* data) {
    Grid A{M, K};
#pragma omp parallel for schedule(static) if (large(M * K))
    for (i64 c = 0; c < A.chunks(); c++)
        put_chunk<Layout>(data + UNIT * chunk_start[c], ChunkWeights(dense, A, c));
}

}  // namespace lscd::banks
