// What a thread block has still to copy, one after another through its segments.
#pragma once
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

// What is left of a segment, numbers at to last, if anything: at < last. STRIPS of a row block: the chunks of one of
// them, of which each round has one, numbered through A; the last row block may be without it. 0: tiles of B', OF_ROUND
// in each round.
template <int STRIPS, int OF_ROUND = 1>
struct Walk {
    int segment, at, last;

    __device__ Walk(int segment, int at, int last) : segment(segment), at(at), last(last) {}
    // Of what a warp begins with, from this place on.
    __device__ Walk(const LaneNumbers<WarpStart>& record, int place)
        : Walk(record[place], record[place + 1], record[place + 2]) {}

    __device__ bool more() const { return at < last; }

    // The first segment from here on that has something.
    __device__ void open(const WgmmaProblem& p, int strip) {
        at = last = 0;
        int block = anew(int(blockIdx.x));  // rare: no register waits for it
        for (int end = __ldg(p.first_segment + block + 1); segment < end; segment++) {
            uint4 s = __ldg(reinterpret_cast<const uint4*>(p.segments + segment));
            int mine = s.x * STRIPS + strip;
            if (STRIPS && mine >= p.strips) continue;
            int before = STRIPS ? mine * p.rounds : 0;
            at = before + s.y * OF_ROUND, last = before + s.z * OF_ROUND;
            return;
        }
    }
    __device__ void open_next(const WgmmaProblem& p, int strip) { segment++, open(p, strip); }
    __device__ void skip(const WgmmaProblem& p, int tiles) {
        static_assert(STRIPS == 0);
        while (tiles > 0 && more()) {
            int here = min(tiles, last - at);
            tiles -= here, at += here;
            if (at == last) open_next(p, 0);
        }
    }
};

}  // namespace
}  // namespace lscd
