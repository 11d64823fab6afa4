// Where should the elements of a tile lie in shared memory, so that nobody meets a bank conflict?
#include "exercise.cuh"

#ifndef PLACE
#define PLACE row * 64 + col
#endif

namespace lscd {
namespace {

// The place of element (row, col) of a tile [16][64] of 16-bit elements; col is 0, 8, 16 .. 56, since
// copies and ldmatrix take eight elements, 16 bytes, at a time.
__device__ int place(int row, int col) { return PLACE; }

// A warp copies a tile to shared memory, and reads fragments of 16 x 16 from it. A: the tile; C: the
// registers of all lanes.
__global__ void swizzle(const __grid_constant__ Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<uint16_t> tile(memory);
    const uint16_t* from = static_cast<const uint16_t*>(p.A[0]);
    uint32_t* to = static_cast<uint32_t*>(p.C);
    int lane = threadIdx.x;

    for (int row = lane / 8; row < 16; row += 4)
        cp_async_16(tile, place(row, lane % 8 * 8), from + row * 64 + lane % 8 * 8);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp();
    for (int k16 = 0; k16 < 4; k16++) {
        uint32_t r[4];
        ldmatrix_x4(r, tile, place(lane % 16, k16 * 16 + lane / 16 * 8));
        for (int i = 0; i < 4; i++) st_global(to + (k16 * 4 + i) * 32 + lane, r[i]);
    }
}

}  // namespace
}  // namespace lscd

LSCD_EXPORT int lscd_exercise_place(int row, int col) { return lscd::place(row, col); }

LSCD_EXPORT int lscd_exercise_swizzle(const lscd::Problem* p) {
    return lscd::run(lscd::swizzle, p, 32, 16 * 80 * 2);  // more than the tile needs
}
