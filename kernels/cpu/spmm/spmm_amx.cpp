// AMX (Sapphire Rapids and later), bf16: a strip is two tiles of 16 pair lines, just as it lies.
//
//   C^T [n <= 16][16 lanes] += B^T [n][32 columns] * strip [16 pair lines][16 lanes x 2]
//
// tdpbf16ps takes subnormal inputs as zero, which is far below what bf16 results can show.
#include "decode_avx512.h"
#include "spmm.h"

namespace lscd {
namespace {

// Tile registers 0-3 are the sums of four strips, 4 and 5 the activations of 32 columns each, 6 and 7
// their weights. (Literals throughout, since gcc pastes them into the instructions.)
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    u16 bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16];

    explicit TileConfig(i64 N) {
        for (i64 tile = 0; tile < 16; tile++) rows[tile] = tile >= 8 ? 0 : tile >= 6 ? 16 : N;
    }
};

// Gcc's tile intrinsics do not tell the compiler that they read memory.
inline void memory_is_read() { __asm__ volatile("" ::: "memory"); }

template <i64 COLUMNS>
struct AmxMultiplier {
    static constexpr i64 NB = COLUMNS, PACKED = BLOCK_K * NB, SUM = NB * STRIP_ROWS;
    static constexpr bool FUSES = false;
    using Element = u16;
    const i64 strip_count, n_blocks;
    const bool resident;  // the sums stay in the tile registers for the whole K loop
    const u16* strips = nullptr;

    AmxMultiplier(i64 strip_count, i64 n_blocks)  // of 1, 4 or 8 strips
        : strip_count(strip_count), n_blocks(n_blocks),
          resident(n_blocks == 1 && strip_count <= 4) {
        TileConfig config(NB);
        memory_is_read();
        _tile_loadconfig(&config);
    }
    ~AmxMultiplier() { _tile_release(); }

    static void pack(const Problem& p, i64 k0, i64 n0, u16* out) {  // [2][NB][32 columns of A]
        for (i64 half = k0; half < k0 + BLOCK_K; half += 32)
            for (i64 n = n0; n < n0 + NB; n++)
                for (i64 k = half; k < half + 32; k++) *out++ = activation(p, k, n);
    }

    void begin(float* acc) {
        memset(acc, 0, n_blocks * strip_count * SUM * sizeof(float));
        if (resident) strip_count == 1 ? load<1>(acc) : load<4>(acc);
    }
    void prepare(const u16* decoded) { strips = decoded; }
    void end(float* acc) {
        if (resident) strip_count == 1 ? store<1>(acc) : store<4>(acc);
    }

    void multiply(const u16* packed, float* acc) {
        memory_is_read();
        _tile_loadd(4, packed, 64);
        _tile_loadd(5, packed + 32 * NB, 64);
        if (strip_count == 1) return multiply_some<1>(strips, acc);
        for (i64 s = 0; s < strip_count; s += 4) multiply_some<4>(strips + s * STRIP, acc + s * SUM);
    }

    template <i64 COUNT>
    void multiply_some(const u16* strip, float* acc) {
        if (!resident) load<COUNT>(acc);
        _tile_loadd(6, strip, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, strip + STRIP / 2, 64);
        _tile_dpbf16ps(0, 5, 7);
        if constexpr (COUNT == 4) {
            _tile_loadd(6, strip + STRIP, 64);
            _tile_dpbf16ps(1, 4, 6);
            _tile_loadd(7, strip + STRIP * 3 / 2, 64);
            _tile_dpbf16ps(1, 5, 7);
            _tile_loadd(6, strip + STRIP * 2, 64);
            _tile_dpbf16ps(2, 4, 6);
            _tile_loadd(7, strip + STRIP * 5 / 2, 64);
            _tile_dpbf16ps(2, 5, 7);
            _tile_loadd(6, strip + STRIP * 3, 64);
            _tile_dpbf16ps(3, 4, 6);
            _tile_loadd(7, strip + STRIP * 7 / 2, 64);
            _tile_dpbf16ps(3, 5, 7);
        }
        if (!resident) store<COUNT>(acc);
    }

    template <i64 COUNT>
    static void load(const float* acc) {
        memory_is_read();
        _tile_loadd(0, acc, 64);
        if constexpr (COUNT == 4) {
            _tile_loadd(1, acc + SUM, 64);
            _tile_loadd(2, acc + 2 * SUM, 64);
            _tile_loadd(3, acc + 3 * SUM, 64);
        }
    }

    template <i64 COUNT>
    static void store(float* acc) {
        _tile_stored(0, acc, 64);
        if constexpr (COUNT == 4) {
            _tile_stored(1, acc + SUM, 64);
            _tile_stored(2, acc + 2 * SUM, 64);
            _tile_stored(3, acc + 3 * SUM, 64);
        }
    }
};

struct Amx {
    static constexpr i64 MAX_NB = 16;
    using BitmapStep = Avx512BitmapStep;
    using DenseStep = Avx512DenseStep;
    template <i64 NB, Dtype>
    using Multiplier = AmxMultiplier<NB>;
};

}  // namespace

void spmm_amx(const Problem& p) { spmm_any_N<Amx, Dtype::bf16>(p); }
}  // namespace lscd
