// Zero-row 2:4 on the GPU, passes two to four: what goes to level 1, where streams are placed, and the bytes of each
// chunk, which are those of kernels/cpu/encode/zero_row_24_*.cpp. A warp for a chunk, a lane for a stream.
#include "zero_row_24_load.cuh"
#include "zero_row_24_place.cuh"

namespace lscd {
namespace {

using namespace zero_row_24;

// A warp for a regular chunk of pairs.
__global__ void __launch_bounds__(LANES) send(const __grid_constant__ Plan plan) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles tiles(*reinterpret_cast<Tiles::Memory*>(memory));
    int each = int(plan.grid.slice_cols / COLS), nth = int(blockIdx.x % each);
    Block block(plan.grid, blockIdx.x / each);
    if (nth >= block.regular) return;
    tiles.load(plan.dense, block.row, TILE_ROWS, block.col + block.column(nth, 0), 0);
    plan.sent.find(tiles, blockIdx.x, phase_of(nth));
}

// Weights are done with when streams are placed: with their memory, more blocks fit on an SM.
template <Kind KIND>
struct PlaceMemory {
    union {
        typename TilesOf<KIND>::Memory tiles;
        typename Piles<KIND>::Memory piles;
    };
    uint32_t metadata[metadata_words(KIND)];
};

template <Kind KIND>
__global__ void __launch_bounds__(LANES)
    place(const __grid_constant__ Plan plan, int reach, uint16_t* starts, int* sizes) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<PlaceMemory<KIND>*>(memory);
    Place here(plan.grid, plan.first_chunk);
    TilesOf<KIND> tiles(shared.tiles);
    Shared<uint32_t> metadata = in_shared(shared.metadata);
    for (int i = lane_id(); i < metadata_words(KIND); i += LANES) metadata.store(i, 0);
    int halves = 0;
    write<KIND>(metadata, [&](uint32_t) { halves++; }, tiles, plan, here);
    int first = values_at(KIND, here.extra, here.pieces);
    Placement<KIND> placement(metadata, shared.piles, 2 * halves, first, here.pieces);
    placement.place(reach, KIND == PACKED ? most_bytes(KIND) : chunk_bytes(KIND, placement.least_end()));
    st_global(starts + int64_t(blockIdx.x) * LANES + lane_id(), uint16_t(placement.start));
    if (lane_id() == 0) st_global(sizes + blockIdx.x, chunk_bytes(KIND, placement.end) / START_BYTES);
}

// Behind it are the bytes of a chunk.
template <Kind KIND>
struct PackMemory {
    typename TilesOf<KIND>::Memory tiles;
    uint32_t metadata[metadata_words(KIND)];
};

// The lane's four words of metadata into a chunk; of packed streams three words of codes. Of each piece of sixes two
// lanes of four put indices and steps. Of nested streams planes.
template <Kind KIND>
__device__ void put_metadata(Shared<uint32_t> chunk, Shared<uint32_t> metadata, int /*pieces*/) {
    uint32_t codes[3] = {};
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        uint32_t word = metadata.load(lane_id() * TILES + m);
        if (KIND == PAIRS) chunk.store(lane_id() * TILES + m, word);
        for (int n = 0; KIND == PACKED && n < 8; n++) {
            uint32_t code = code_of(word >> 4 * n & 15), shift = code_shift(n);
            if (m < 3) codes[m] |= code << shift;
            else for (int i = 0; i < 3; i++) codes[i] |= (code >> i & 1) << (shift + 3);
        }
    }
    for (int i = 0; KIND == PACKED && i < 3; i++) chunk.store(code_word(lane_id(), i), codes[i]);
}
template <>
__device__ void put_metadata<SIXES>(Shared<uint32_t> chunk, Shared<uint32_t> metadata, int pieces) {
    if (lane_id() & 2) return;
    int at = lane_id() / 4 * 2 + lane_id() % 2;  // (g, half)
    for (int piece = 0; piece < pieces; piece++) {
        Shared<uint32_t> to = chunk + piece * SECOND_PIECE_AT / 4;
        Shared<uint32_t> from = metadata + (piece * METADATA_WORDS + lane_id() * TILES);
        uint32_t steps[2] = {};
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            uint32_t step0 = from.load(m), step1 = from.load(2 * TILES + m);
            to.store(at * TILES + m, step0 & step1);
            steps[m / 2] |= (unused(step0) & ~unused(step1)) << m % 2;
        }
        for (int i = 0; i < 2; i++) to.store(STEPS_AT / 4 + at * 2 + i, steps[i]);
    }
}
template <>
__device__ void put_metadata<NESTED>(Shared<uint32_t> chunk, Shared<uint32_t> metadata, int /*pieces*/) {
    int g = lane_id() / 4, q = lane_id() % 4;
    for (int n = q; n < NESTED_ORDERS / 8; n += 4) {
        uint32_t planes[4] = {};
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            uint32_t codes = metadata.load(metadata_word(m, g, 8 * n));
#pragma unroll
            for (int i = 0; i < 4; i++) planes[i] |= (codes >> i & 0x11111111u) << m;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) chunk.store(planes_at(g, n) / 4 + i, planes[i]);
    }
}

template <Kind KIND>
__global__ void __launch_bounds__(LANES)
    pack(const __grid_constant__ Plan plan, const uint16_t* starts, const int* chunk_start,
         uint4* data) {
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<PackMemory<KIND>*>(memory);
    static_assert(sizeof shared % sizeof(uint4) == 0);
    Place here(plan.grid, plan.first_chunk);
    TilesOf<KIND> tiles(shared.tiles);
    Shared<uint4> chunk(memory + sizeof shared);
    Shared<uint16_t> halves = chunk.as<uint16_t>();
    int first = ld_global(chunk_start + blockIdx.x);
    int vectors = ld_global(chunk_start + blockIdx.x + 1) - first;
    Shared<uint32_t> metadata = in_shared(shared.metadata);
    for (int i = lane_id(); i < vectors; i += LANES) chunk.store(i, uint4{0, 0, 0, 0});
    for (int i = lane_id(); i < metadata_words(KIND); i += LANES) metadata.store(i, 0);
    int start = ld_global(starts + int64_t(blockIdx.x) * LANES + lane_id()), at = start / 2;
    write<KIND>(metadata, [&](uint32_t value) { halves.store(at++, uint16_t(value)); }, tiles, plan, here);
    put_metadata<KIND>(chunk.as<uint32_t>(), metadata, here.pieces);
    int m = lane_id() / TILE_STREAMS, g = lane_id() % TILE_STREAMS;
    int size = stated_size(KIND, vectors * START_BYTES, m);
    int stated = starts_at(KIND) / 2 + TILES * g + m, lists = header_bytes(KIND) / 2;
    halves.store(stated, uint16_t(start | size << 14));
    constexpr int LISTED = 4 * groups_of(KIND);  // of a tile
    for (int i = lane_id(); here.extra && i < TILES * LISTED; i += LANES) {
        Queue queue = plan.queue(here.z, i / LISTED);
        int word = queue.word_of(here.nth - here.block.fixed, i % LISTED / 4 * 3 + i % 4);
        halves.store(lists + i, uint16_t(i % 4 < 3 ? queue.column(word) : NOTHING));
    }
    __syncwarp();
    for (int i = lane_id(); i < vectors; i += LANES) st_global(data + first + i, chunk.load(i));
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::zero_row_24;

// sent [blocks][columns of a slice / 48][32]: of stream (tile, g) of a regular chunk of pairs, what goes to level 1.
LSCD_EXPORT int lscd_zero_row_24_send(const uint16_t* dense, int64_t M, int64_t K, int64_t slice_cols,
                                      uint32_t* sent, cudaStream_t stream) {
    Plan plan{{M, K, slice_cols, 1, PAIRS}, Source(dense, M, K), nullptr, nullptr, nullptr, {sent}};
    int64_t chunks = plan.grid.blocks() * (slice_cols / COLS);
    return launch_with(sizeof(Tiles::Memory), send, chunks, LANES, stream, plan);
}

// starts [chunks][32]: of stream (tile, g), in bytes from the start of its chunk; sizes [chunks]:
// in units of 16 bytes.
LSCD_EXPORT int lscd_zero_row_24_place(const uint16_t* dense, int64_t M, int64_t K,
                                       int64_t slice_cols, int64_t levels, int64_t kind,
                                       uint32_t* queues, const int* queued, const int* first_chunk,
                                       int64_t chunks, uint32_t* sent, int64_t reach, uint16_t* starts, int* sizes,
                                       cudaStream_t stream) {
    Plan plan{{M, K, slice_cols, levels, Kind(kind)}, Source(dense, M, K), queues, queued, first_chunk, {sent}};
    return with_kind(kind, [&](auto constant) {
        constexpr Kind KIND = decltype(constant)::value;
        return launch_with(sizeof(PlaceMemory<KIND>), place<KIND>, chunks, LANES, stream, plan, int(reach),
                           starts, sizes);
    });
}

// data [16 * chunk_start[chunks]]; largest: bytes of the largest chunk.
LSCD_EXPORT int lscd_zero_row_24_pack(const uint16_t* dense, int64_t M, int64_t K,
                                      int64_t slice_cols, int64_t levels, int64_t kind,
                                      uint32_t* queues, const int* queued, const int* first_chunk,
                                      int64_t chunks, uint32_t* sent, int64_t largest, const uint16_t* starts,
                                      const int* chunk_start, uint4* data, cudaStream_t stream) {
    Plan plan{{M, K, slice_cols, levels, Kind(kind)}, Source(dense, M, K), queues, queued, first_chunk, {sent}};
    return with_kind(kind, [&](auto constant) {
        constexpr Kind KIND = decltype(constant)::value;
        return launch_with(int(sizeof(PackMemory<KIND>) + largest), pack<KIND>, chunks, LANES, stream, plan,
                           starts, chunk_start, data);
    });
}
