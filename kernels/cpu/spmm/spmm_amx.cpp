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
    using Element = u16;
    const i64 strip_count, n_blocks;
    const bool resident;  // the sums stay in the tile registers for the whole K loop
    const u16* strips = nullptr;
    alignas(64) u16 decoded[4 * STRIP];
    bool last_strip_waits = false;

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
        if (last_strip_waits) multiply_strip<3>(decoded + 3 * STRIP);
        last_strip_waits = false;
        if (resident) strip_count == 1 ? store<1>(acc) : store<4>(acc);
    }

    // Each strip is multiplied after the next one has been decoded (the last, in the next call): by
    // then its stores have reached the cache, which tile loads would otherwise wait for.
    template <class BitmapDecoder>
    void multiply_decoded(BitmapDecoder& decoder, const u16* packed, float*) {
        auto decode = [&](i64 s) {
            for (i64 step = 0; step < 8; step++) decoder.step(decoded + s * STRIP + step * 4 * 32);
        };
        decode(0);
        if (last_strip_waits) multiply_strip<3>(decoded + 3 * STRIP);
        load_activations(packed);
        decode(1);
        multiply_strip<0>(decoded);
        decode(2);
        multiply_strip<1>(decoded + STRIP);
        decode(3);
        multiply_strip<2>(decoded + 2 * STRIP);
        last_strip_waits = true;
    }

    void multiply(const u16* packed, float* acc) {
        load_activations(packed);
        if (strip_count == 1) return multiply_some<1>(strips, acc);
        for (i64 s = 0; s < strip_count; s += 4) multiply_some<4>(strips + s * STRIP, acc + s * SUM);
    }

    template <i64 COUNT>
    void multiply_some(const u16* strip, float* acc) {
        if (!resident) load<COUNT>(acc);
        multiply_strip<0>(strip);
        if constexpr (COUNT == 4) {
            multiply_strip<1>(strip + STRIP);
            multiply_strip<2>(strip + 2 * STRIP);
            multiply_strip<3>(strip + 3 * STRIP);
        }
        if (!resident) store<COUNT>(acc);
    }

    static void load_activations(const u16* packed) {
        memory_is_read();
        _tile_loadd(4, packed, 64);
        _tile_loadd(5, packed + 32 * NB, 64);
    }

    template <i64 SUM_TILE>
    static void multiply_strip(const u16* strip) {
        memory_is_read();
        _tile_loadd(6, strip, 64);
        _tile_loadd(7, strip + STRIP / 2, 64);
        if constexpr (SUM_TILE == 0) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(0, 5, 7);
        } else if constexpr (SUM_TILE == 1) {
            _tile_dpbf16ps(1, 4, 6);
            _tile_dpbf16ps(1, 5, 7);
        } else if constexpr (SUM_TILE == 2) {
            _tile_dpbf16ps(2, 4, 6);
            _tile_dpbf16ps(2, 5, 7);
        } else {
            _tile_dpbf16ps(3, 4, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
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
    static constexpr i64 MAX_NB = 16;  // rows of a tile register
    using BitmapStep = Avx512BitmapStep;
    using DenseStep = Avx512DenseStep;
    template <i64 NB, Dtype>
    using Multiplier = AmxMultiplier<NB>;
};

}  // namespace

void spmm_amx(const Problem& p) { spmm_any_N<Amx, Dtype::bf16>(p); }
}  // namespace lscd
