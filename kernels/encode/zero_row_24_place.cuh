// Where the streams of a chunk begin: see kernels/cpu/encode/zero_row_24_placement.h, also for why.
// Each lane weighs up its own stream: its wavefronts for all starts at once, the costs of four.
#pragma once
#include "zero_row_24_piles.cuh"

namespace lscd::zero_row_24 {

constexpr int FREE_BYTES = 120, WAVEFRONT_COST = 20, SKIP_COST = 5, TURNS_COST = 40;

template <Kind KIND>
class Placement {
    Piles<KIND> piles_;
    uint32_t wanted_[LOADS<KIND>];  // runs of the lane's stream
    int bytes_, first_, pieces_;    // of it; where streams may begin; side by side

  public:
    int start, end;  // of the lane's stream; of all of them

    __device__ Placement(Shared<uint32_t> metadata, typename Piles<KIND>::Memory& memory,
                         int bytes, int first, int pieces = pieces_of(KIND))
        : Placement(Reads<KIND>(metadata), memory, bytes, first, pieces) {}

    // Where the last stream ends if none skips a byte.
    __device__ int least_end() const { return first_ + __reduce_add_sync(ALL_LANES, bytes_); }
    // In `most` bytes of the chunk, which has room for all.
    __device__ void place(int reach, int most) {
        if (reach >= 0 && !free_of_conflicts()) return greedily(reach, most - TAIL - least_end());
        int after = inclusive_scan(bytes_);
        start = first_ + after - bytes_;
        end = first_ + __shfl_sync(ALL_LANES, after, LANES - 1);
    }

  private:
    __device__ Placement(const Reads<KIND>& reads, typename Piles<KIND>::Memory& memory, int bytes,
                         int first, int pieces)
        : piles_(memory, reads), bytes_(bytes), first_(first), pieces_(pieces), start(first), end(first) {
#pragma unroll
        for (int q = 0; q < LOADS<KIND>; q++) wanted_[q] = Piles<KIND>::wanted(reads.run[q]);
    }

    // A number that the compiler knows where chunks have one piece.
    __device__ int loads() const {
        constexpr int OF_PIECE = LOADS<KIND> / pieces_of(KIND);
        return pieces_of(KIND) > 1 ? OF_PIECE * pieces_ : OF_PIECE;
    }
    // Whether no tile's streams fill the banks once.
    __device__ bool free_of_conflicts() const {
        int tile = bytes_;
        for (int d = 1; d < TILE_STREAMS; d *= 2) tile += __shfl_xor_sync(ALL_LANES, tile, d);
        return __all_sync(ALL_LANES, tile <= FREE_BYTES);
    }
    // Skips up to `spare` bytes in all.
    __device__ void greedily(int reach, int spare) {
        for (uint32_t placed = 0; ~placed;) {
            uint32_t best = best_of_lane(placed, min(reach, spare));
            best = __reduce_min_sync(ALL_LANES, best);
            __syncwarp();  // all lanes have read the piles
            int chosen = best % 256, at = end + best / 256 % 256;
            int others = __popc(of_tile(placed, chosen));
            if (KIND == PACKED && at / 2 % 2) piles_.template add<true>(at / 4, chosen, others, loads());
            else piles_.template add<false>(at / 4, chosen, others, loads());
            if (lane_id() == chosen) start = at;
            spare -= at - end;
            end = at + __shfl_sync(ALL_LANES, bytes_, chosen);
            placed |= 1u << chosen;
        }
    }
    // Of the streams in a mask, those of a lane's tile.
    __device__ static uint32_t of_tile(uint32_t streams, int lane) {
        return streams >> lane / TILE_STREAMS * TILE_STREAMS & 0xff;
    }
    // Least cost of the lane's stream << 16 | bytes skipped << 8 | lane; all ones if it is placed.
    __device__ uint32_t best_of_lane(uint32_t placed, int reach) const {
        if (placed >> lane_id() & 1) return ~0u;
        int saved = TURNS_COST * __popc(of_tile(placed, lane_id()));  // the others' costs are of 8 streams left
        return cheapest(reach) + (uint32_t(saved) << 16 | lane_id());
    }
    // Least cost << 16 | bytes skipped << 8.
    __device__ uint32_t cheapest(int reach) const {
        auto even = wavefronts<false>();
        if constexpr (KIND != PACKED) return cheapest<false>(even, reach);
        auto odd = wavefronts<true>();  // before either is weighed up, since both have the same runs
        return min(cheapest<false>(even, reach), cheapest<true>(odd, reach));
    }
    // How many wavefronts more the lane's stream takes if it starts with each bank, its first or, ODD, second
    // half.
    template <bool ODD>
    __device__ Counts<LOADS<KIND>> wavefronts() const {
        uint32_t more[LOADS<KIND>];
#pragma unroll
        for (int q = 0; q < LOADS<KIND>; q++)
            more[q] = q < loads() ? piles_.more(q, wanted_[load_like<ODD>(q)], banks_on<ODD>(q)) : 0;
        return Counts<LOADS<KIND>>(more);
    }
    // The least of such starts. Of equal costs those that skip less.
    template <bool ODD>
    __device__ uint32_t cheapest(const Counts<LOADS<KIND>>& wavefronts, int reach) const {
        int skip = (end >> 1 & 1) != ODD ? 2 : 0;
        uint32_t best = 0xffffff00;
#pragma unroll 1
        for (; skip <= reach; skip += 16) {
            uint32_t counts = wavefronts.four(end + skip >> 2);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int skipped = skip + 4 * i, cost = WAVEFRONT_COST * (counts >> 8 * i & 255) + SKIP_COST * skipped;
                if (skipped <= reach) best = min(best, uint32_t(cost) << 16 | uint32_t(skipped) << 8);
            }
        }
        return best;
    }
};

}  // namespace lscd::zero_row_24
