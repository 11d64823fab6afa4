// fp16 and bf16 as CUDA names them, to fp32 and back, rounding to nearest, ties to even; and fp32 sums
// that a wgmma is yet to write.
#pragma once
#include <cmath>
#include <type_traits>

#include "../machine/memory.h"

struct __half {
    uint16_t bits;
};
struct __nv_bfloat16 {
    uint16_t bits;
};

namespace lscd::simt {

// What registers hold that a wgmma is yet to write: a NaN that no sum is.
constexpr uint32_t NOT_YET = 0x7fd07e75;
inline float not_yet() {
    float value;
    memcpy(&value, &NOT_YET, sizeof value);
    return value;
}
inline bool is_not_yet(float value) { return memcmp(&value, &NOT_YET, sizeof value) == 0; }

// A value, which no wgmma is yet to write.
template <class T>
const T& known(const T& value, Site site) {
    if constexpr (std::is_same_v<T, float>)
        if (is_not_yet(value))
            Block::current->fail(
                site, "uses a sum that a wgmma may still be computing: no wait between");
    return value;
}

inline float to_float(__nv_bfloat16 value) {
    uint32_t bits = uint32_t(value.bits) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

inline float to_float(__half value) {
    int exponent = value.bits >> 10 & 31, mantissa = value.bits & 1023;
    float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? std::ldexp(float(1024 + mantissa), exponent - 25)
                                     : std::ldexp(float(mantissa), -24);
    return value.bits >> 15 ? -magnitude : magnitude;
}

inline __nv_bfloat16 to_bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value)) return {0x7fff};
    return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline __half to_half(float value) {
    if (std::isnan(value)) return {0x7fff};
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double magnitude = std::fabs(double(value));
    if (magnitude >= 65520) return {uint16_t(sign | 0x7c00)};
    int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
    // In units of the last place; where rounding carries, the exponent's bits take it.
    int units = int(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    return {uint16_t(sign | (units + 1024 * (exponent + 14)))};
}

}  // namespace lscd::simt
