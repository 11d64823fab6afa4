// Zero-row 2:4 in strips on the GPU: what is found out about A, where streams are placed, and the
// bytes of each chunk, which are those of kernels/cpu/encode/zero_row_24_strips.cpp.
//
//   scan: a warp for a row, a lane for a group of three columns
//   send, place, pack: a warp for a chunk, a lane for a stream (zero_row_24_tile.cuh)
#include "zero_row_24_place.cuh"
#include "zero_row_24_strips.cuh"
#include "zero_row_24_writer.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

constexpr int SCAN_WARPS = 8;

__global__ void __launch_bounds__(SCAN_WARPS * LANES)
    scan(Source dense, uint32_t exponent, int* full, int* nonfinite) {
    int64_t row = int64_t(blockIdx.x) * SCAN_WARPS + warp_id();
    if (row >= dense.M) return;
    int count = 0;
    bool bad = false;
#pragma unroll 4
    for (int64_t k = 3 * lane_id(); k < dense.K; k += 3 * LANES) {
        int present = 0;
        for (int i = 0; i < 3; i++) {
            uint32_t weight = dense.load(row, k + i);
            present += weight != 0;
            bad |= (weight & exponent) == exponent;
        }
        count += present == 3;
    }
    count = __reduce_add_sync(ALL_LANES, count);
    bad = __any_sync(ALL_LANES, bad);
    if (lane_id()) return;
    st_global(full + row, count);
    if (bad) st_global(nonfinite, 1);
}

__global__ void __launch_bounds__(LANES)
    send(const __grid_constant__ Grid A, const __grid_constant__ Source dense, Sent sent) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles tiles(*reinterpret_cast<Tiles::Memory*>(memory));
    int64_t strip = blockIdx.x / A.regular;
    int nth = int(blockIdx.x % A.regular);
    tiles.load(dense, strip * ROWS, 0, int64_t(nth) * COLS, TILE_COLS);
    sent.find(tiles, A.sending(strip, nth), Grid::phase(nth, lane_id() / TILE_STREAMS));
}

// Weights are done with when streams are placed: with their memory, more blocks fit on an SM.
struct PlaceMemory {
    union {
        Tiles::Memory tiles;
        Piles<PAIRS>::Memory piles;
    };
    uint32_t metadata[METADATA_WORDS];
};

__global__ void __launch_bounds__(LANES)
    place(const __grid_constant__ Grid A, const __grid_constant__ Source dense, Sent sent, int reach,
          uint16_t* starts, int* sizes) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<PlaceMemory*>(memory);
    Place here(A);
    Tiles tiles(shared.tiles);
    Shared<uint32_t> metadata = in_shared(shared.metadata);
    for (int i = lane_id(); i < METADATA_WORDS; i += LANES) metadata.store(i, 0);
    load(tiles, dense, A, sent, here);
    Entries entries(tiles, here);
    int halves = 0;
    auto count = [&](uint32_t) { halves++; };
    auto leaves = leaving([&](int order, const uint32_t (&)[3]) { return entries.nth(order) % 3; });
    Writer<PAIRS, decltype(count), decltype(leaves)>(metadata, count, leaves).write(tiles);
    Placement<PAIRS> placement(metadata, shared.piles, 2 * halves, ENTRIES + entries.bytes());
    placement.place(reach, MOST_BYTES);
    st_global(starts + int64_t(blockIdx.x) * LANES + lane_id(), uint16_t(placement.start));
    if (lane_id() == 0) st_global(sizes + blockIdx.x, (placement.end + TAIL + UNIT - 1) / UNIT);
}

struct PackMemory {
    uint4 chunk[MOST_UNITS];
    Tiles::Memory tiles;
};

__global__ void __launch_bounds__(LANES)
    pack(const __grid_constant__ Grid A, const __grid_constant__ Source dense,
         Sent sent, const uint16_t* starts, const int* chunk_start, uint4* data) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<PackMemory*>(memory);
    Place here(A);
    Tiles tiles(shared.tiles);
    Shared<uint4> chunk = in_shared(shared.chunk);
    Shared<uint16_t> halves = chunk.as<uint16_t>();
    Shared<uint32_t> words = chunk.as<uint32_t>();
    int first = ld_global(chunk_start + blockIdx.x);
    int units = ld_global(chunk_start + blockIdx.x + 1) - first;
    for (int i = lane_id(); i < units; i += LANES) chunk.store(i, uint4{0, 0, 0, 0});
    load(tiles, dense, A, sent, here);
    Entries entries(tiles, here);
    entries.clear(words);
    int start = ld_global(starts + int64_t(blockIdx.x) * LANES + lane_id()), at = start / 2;
    auto put = [&](uint32_t value) { halves.store(at++, uint16_t(value)); };
    auto leaves = leaving([&](int order, const uint32_t (&weights)[3]) { return entries.put(words, order, weights); });
    Writer<PAIRS, decltype(put), decltype(leaves)>(words, put, leaves).write(tiles);
    int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
    uint32_t header = uint32_t(entries.steps() | units << 8) >> (g / 2 * 8 + 2 * m) & 3;
    halves.store(starts_at(PAIRS) / 2 + TILES * g + m, uint16_t(start | header << 14));
    __syncwarp();
    for (int i = lane_id(); i < units; i += LANES) st_global(data + first + i, chunk.load(i));
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::zero_row_24;

// full [M]: groups of each row that have three weights. nonfinite [1], of zeros: 1 if a weight has
// all bits of `exponent`.
LSCD_EXPORT int lscd_zero_row_24_strips_scan(const uint16_t* dense, int64_t M, int64_t K,
                                             int64_t exponent, int* full, int* nonfinite,
                                             cudaStream_t stream) {
    int64_t blocks = (M + SCAN_WARPS - 1) / SCAN_WARPS;
    return launch(scan, blocks, SCAN_WARPS * LANES, stream, Source(dense, M, K), uint32_t(exponent),
                  full, nonfinite);
}

// sent [strips][regular chunks][32]: of stream (tile, g), what goes to level 1.
LSCD_EXPORT int lscd_zero_row_24_strips_send(const uint16_t* dense, int64_t M, int64_t K, uint32_t* sent,
                                             cudaStream_t stream) {
    Grid A(M, K, 1);
    return launch_with(sizeof(Tiles::Memory), send, A.chunks() / A.rounds * A.regular, LANES, stream, A,
                       Source(dense, M, K), Sent{sent});
}

// starts [chunks][32]: of stream (tile, g), in bytes from the start of its chunk; sizes [chunks]:
// in units of 16 bytes.
LSCD_EXPORT int lscd_zero_row_24_strips_place(const uint16_t* dense, int64_t M, int64_t K,
                                              int64_t levels, uint32_t* sent, int64_t reach,
                                              uint16_t* starts, int* sizes, cudaStream_t stream) {
    Grid A(M, K, levels);
    return launch_with(sizeof(PlaceMemory), place, A.chunks(), LANES, stream, A,
                       Source(dense, M, K), Sent{sent}, int(reach), starts, sizes);
}

// data [16 * chunk_start[chunks]].
LSCD_EXPORT int lscd_zero_row_24_strips_pack(const uint16_t* dense, int64_t M, int64_t K,
                                             int64_t levels, uint32_t* sent, const uint16_t* starts,
                                             const int* chunk_start, uint4* data,
                                             cudaStream_t stream) {
    Grid A(M, K, levels);
    return launch_with(sizeof(PackMemory), pack, A.chunks(), LANES, stream, A, Source(dense, M, K),
                       Sent{sent}, starts, chunk_start, data);
}
