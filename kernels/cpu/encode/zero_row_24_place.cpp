// Zero-row 2:4, pass two: where each stream begins in its chunk (layout: zero_row_24.h).
//
// A gather reads up to four words of each of a tile's eight streams, wherever they lie in the 32
// banks, and takes as many wavefronts as the fullest bank has words. The words of a stream lie side
// by side, so they are a mask of banks, which turns with the start of the stream; what the streams
// placed so far read is, by load, a pile of such masks. A stream costs one more wavefront where it
// touches a bank that is as full as any.
//
// Greedy: 32 times over, of all streams not yet placed, and all starts within `reach` bytes of the
// end of the last one, take the one with the least
//
//   20 * wavefronts more + 3 * bytes skipped - 40 * streams of its tile not yet placed
//
// (ties: the fewest bytes skipped, then the first stream). Tiles do not disturb each other: the last
// term lets them nearly take turns, so that each keeps streams to choose from. With `reach` = -1,
// and where no tile's streams fill the banks once, they stand in plain order, one after the other.
#include <algorithm>

#include "zero_row_24_tile.h"

using namespace lscd;
using namespace lscd::zero_row_24;

namespace {

constexpr int LOADS = 16, PAIR_LOADS = 8, TILE_STREAMS = 8;  // of a tile
constexpr i64 FREE_BYTES = 120;  // of a tile's streams: with what is read after them, 32 banks
constexpr int WAVEFRONT_COST = 20, SKIP_COST = 3, TILE_COST = 40;

inline u32 rotated(u32 mask, i64 by) { return mask << (by & 31) | mask >> (-by & 31); }

// The banks that each load of a stream reads, if it starts in bank 0; [1]: two bytes after that.
struct Reads {
    u32 banks[2][LOADS] = {};
    i64 bytes = 0;

    Reads() = default;
    Reads(const Stream& stream, bool pairs) : bytes(2 * stream.count) {
        i64 at = 0;
        for (int order = 0; order < ORDERS; order++) {
            u32 code = stream.nibble(order);
            bool slot0 = (code & 3) != 3, slot1 = code >> 2 != 3;
            for (int odd = 0; odd < 2; odd++) add(odd, order / 4, at + 2 * odd, pairs);
            at += pairs ? 4 * slot1 : 2 * slot0 + 2 * slot1;
        }
    }

  private:
    void add(int odd, int gather, i64 at, bool pairs) {
        if (pairs) {
            banks[odd][gather] |= 1u << (at / 4 & 31);
            return;
        }
        for (int slot = 0; slot < 2; slot++)
            banks[odd][2 * gather + slot] |= 1u << ((at + 2 * slot) / 4 & 31);
    }
};

// What the placed streams of a tile read.
struct Pile {
    u32 level[TILE_STREAMS + 1][LOADS];  // [n]: banks that at least n of them read
    u32 fullest[LOADS];                  // banks that no other one exceeds
    int left = TILE_STREAMS;

    Pile() {
        memset(level, 0, sizeof level);
        for (int q = 0; q < LOADS; q++) level[0][q] = fullest[q] = ~u32(0);
    }
    int more(const u32 (&banks)[LOADS], i64 bank, int loads) const {
        int sum = 0;
        for (int q = 0; q < loads; q++) sum += (rotated(banks[q], bank) & fullest[q]) != 0;
        return sum;
    }
    void add(const u32 (&banks)[LOADS], i64 bank, int loads) {
        left--;
        for (int q = 0; q < loads; q++) {
            u32 mask = rotated(banks[q], bank);
            for (int n = TILE_STREAMS; n > 0; n--) level[n][q] |= level[n - 1][q] & mask;
            for (int n = 1; n <= TILE_STREAMS && level[n][q]; n++) fullest[q] = level[n][q];
        }
    }
};

// Starts of the streams of a chunk; returns where the last one ends.
class Placement {
  public:
    Placement(const Tile (&tiles)[TILES], bool pairs, i64 first)
        : end(first), loads_(pairs ? PAIR_LOADS : LOADS), step_(pairs ? 4 : 2) {
        for (int s = 0; s < STREAMS; s++)
            reads_[s] = Reads(tiles[s / TILE_STREAMS].stream(s % TILE_STREAMS, pairs), pairs);
    }
    bool free_of_conflicts() const {
        i64 bytes[TILES] = {};
        for (int s = 0; s < STREAMS; s++) bytes[s / TILE_STREAMS] += reads_[s].bytes;
        return *std::max_element(bytes, bytes + TILES) <= FREE_BYTES;
    }
    void in_order() {
        for (int s = 0; s < STREAMS; s++) put(s, end);
    }
    void greedily(i64 reach) {
        for (u32 left = ~u32(0); left;) {
            i64 least = LLONG_MAX, start = end;
            int best = 0;
            for (i64 at = end; at <= end + reach; at += step_)
                for_each_bit(left, [&](i64 s) {
                    i64 cost = cost_of(int(s), at);
                    if (cost < least) least = cost, best = int(s), start = at;
                });
            piles_[best / TILE_STREAMS].add(reads_[best].banks[start / 2 & 1], start / 4, loads_);
            put(best, start);
            left &= ~(u32(1) << best);
        }
    }
    i64 end;
    u16 start[STREAMS];

  private:
    i64 cost_of(int s, i64 at) const {
        const Pile& pile = piles_[s / TILE_STREAMS];
        int more = pile.more(reads_[s].banks[at / 2 & 1], at / 4, loads_);
        return WAVEFRONT_COST * more + SKIP_COST * (at - end) - TILE_COST * pile.left;
    }
    void put(int s, i64 at) {
        start[s] = u16(at);
        end = at + reads_[s].bytes;
    }
    Reads reads_[STREAMS];
    Pile piles_[TILES];
    int loads_, step_;
};

}  // namespace

// starts [chunks][32]: of stream (tile, g), in bytes from the start of its chunk; sizes [chunks]:
// in units of 16 bytes.
LSCD_EXPORT void lscd_zero_row_24_place(const u16* dense, i64 M, i64 K, i64 slice_cols, i64 pairs,
                                        u32* queues, const i32* queued, const i32* first_chunk,
                                        i64 /*chunks*/, i64 reach, u16* starts, i32* sizes) {
    Plan plan{{M, K, slice_cols}, bool(pairs), dense, queues, queued, first_chunk};
#pragma omp parallel for schedule(dynamic) if (large(M * K))
    for (i64 z = 0; z < plan.grid.blocks(); z++)
        for (i64 chunk = first_chunk[z]; chunk < first_chunk[z + 1]; chunk++) {
            i64 nth = chunk - first_chunk[z];
            Tile tiles[TILES];
            for (i64 m = 0; m < TILES; m++) tiles[m].load(plan, z, nth, m);
            Placement placement(tiles, pairs, header_bytes(nth >= Block(plan.grid, z).regular));
            if (reach < 0 || placement.free_of_conflicts()) placement.in_order();
            else placement.greedily(reach);
            memcpy(starts + chunk * STREAMS, placement.start, sizeof placement.start);
            sizes[chunk] = i32(ceil_div(placement.end + TAIL, UNIT) * (UNIT / START_BYTES));
        }
}
