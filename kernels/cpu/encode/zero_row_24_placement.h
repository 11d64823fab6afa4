// Where the streams of a chunk of zero-row 2:4 begin, for few bank conflicts.
//
// A gather reads up to four words of each of a tile's eight streams, wherever they lie in the 32
// banks, and takes as many wavefronts as the fullest bank has words. The words of a stream lie side
// by side, so they are a mask of banks, which turns with the start of the stream; what the streams
// placed so far read is, by load, a pile of such masks. A stream costs one more wavefront where it
// touches a bank that is as full as any.
//
// Greedy: 32 times over, of all streams not yet placed, and all starts within `reach` bytes of the
// end of the last one that leave room for the others, take the one with the least
//
//   20 * wavefronts more + 5 * bytes skipped - 40 * streams of its tile not yet placed
//
// (ties: the fewest bytes skipped, then the first stream). Tiles do not disturb each other: the
// last term lets them take turns, so that each keeps streams to choose from. A word is skipped for a
// wavefront, and no two words: bytes bind more often than banks do. With `reach` = -1, and where no
// tile's streams fill the banks once, they stand in plain order, one after the other.
#pragma once
#include <algorithm>

#include "zero_row_24_nested.h"

namespace lscd::zero_row_24 {

constexpr int LOADS = 16;  // of a tile, at most; of level 1 of nested chunks those of slot 0
constexpr int loads_of(Kind kind) { return kind == PACKED || kind == NESTED ? LOADS : ORDERS / 4; }
constexpr i64 FREE_BYTES = 120;            // of a tile's streams: with what is read after, 32 banks
constexpr int WAVEFRONT_COST = 20, SKIP_COST = 5, TURNS_COST = 40;

inline u32 rotated(u32 mask, i64 by) { return mask << (by & 31) | mask >> (-by & 31); }

// The banks that each load of a stream reads, if it starts in bank 0; [1]: two bytes after that.
struct Reads {
    u32 banks[2][LOADS] = {};
    i64 bytes = 0;

    Reads() = default;
    Reads(const Stream& stream, Kind kind) : bytes(2 * stream.count) {
        i64 at = 0;
        for (int order = 0; order < stream.orders; order++) {
            u32 code = stream.in_use(order, kind);
            bool slot0 = (code & 3) != 3, slot1 = code >> 2 != 3;
            for (int odd = 0; odd < 2; odd++) add(odd, order / 4, at + 2 * odd, kind != PACKED);
            at += kind == PACKED ? 2 * slot0 + 2 * slot1 : 4 * slot1;
        }
        for (int order = 0; kind == NESTED && order < LEVEL_ORDERS; order++) {
            for (int odd = 0; odd < 2; odd++) add(odd, (NESTED_ORDERS + order) / 4, at + 2 * odd, true);
            at += 2 * values_of_level(stream.sends, order);
        }
    }

  private:
    void add(int odd, int gather, i64 at, bool words) {
        if (words) {
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

// Starts of the streams of a chunk, the first one at `first`; `end`: where the last one ends.
class Placement {
  public:
    Placement(const Stream (&streams)[STREAMS], Kind kind, i64 first)
        : end(first), first_(first), loads_(loads_of(kind)), step_(kind == PACKED ? 2 : 4) {
        for (int s = 0; s < STREAMS; s++) reads_[s] = Reads(streams[s], kind);
    }
    // Where the last stream ends if none skips a byte.
    i64 least_end() const {
        i64 at = first_;
        for (const Reads& reads : reads_) at += reads.bytes;
        return at;
    }
    // In `most` bytes of the chunk, which has room for all.
    void place(i64 reach, i64 most) {
        if (reach >= 0 && !free_of_conflicts()) return greedily(reach, most - TAIL - least_end());
        for (int s = 0; s < STREAMS; s++) put(s, end);
    }
    i64 end;
    u16 start[STREAMS];

  private:
    bool free_of_conflicts() const {
        i64 bytes[TILES] = {};
        for (int s = 0; s < STREAMS; s++) bytes[s / TILE_STREAMS] += reads_[s].bytes;
        return *std::max_element(bytes, bytes + TILES) <= FREE_BYTES;
    }
    // Skips up to `spare` bytes in all.
    void greedily(i64 reach, i64 spare) {
        for (u32 left = ~u32(0); left;) {
            i64 least = LLONG_MAX, start = end;
            int best = 0;
            for (i64 at = end; at <= end + std::min(reach, spare); at += step_)
                for_each_bit(left, [&](i64 s) {
                    i64 cost = cost_of(int(s), at);
                    if (cost < least) least = cost, best = int(s), start = at;
                });
            spare -= start - end;
            piles_[best / TILE_STREAMS].add(reads_[best].banks[start / 2 & 1], start / 4, loads_);
            put(best, start);
            left &= ~(u32(1) << best);
        }
    }
    i64 cost_of(int s, i64 at) const {
        const Pile& pile = piles_[s / TILE_STREAMS];
        int more = pile.more(reads_[s].banks[at / 2 & 1], at / 4, loads_);
        return WAVEFRONT_COST * more + SKIP_COST * (at - end) - TURNS_COST * pile.left;
    }
    void put(int s, i64 at) {
        start[s] = u16(at);
        end = at + reads_[s].bytes;
    }
    Reads reads_[STREAMS];
    Pile piles_[TILES];
    i64 first_;
    int loads_, step_;
};

}  // namespace lscd::zero_row_24
