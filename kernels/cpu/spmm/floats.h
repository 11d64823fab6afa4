// 16-bit floats to fp32 and back, in plain C++; round to nearest even, as IEEE 754 asks.
// Everything here has internal linkage: each instruction set compiles its own copy.
#pragma once
#include "strip.h"

namespace lscd {
namespace {

inline float as_float(u32 bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline u32 as_bits(float value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <Dtype>
inline float to_float(u16 bits);

template <>
inline float to_float<Dtype::bf16>(u16 bits) {
    return as_float(u32(bits) << 16);
}

template <>
inline float to_float<Dtype::fp16>(u16 bits) {
    u32 sign = u32(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) return as_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x0400) return as_float(sign | ((magnitude << 13) + (112u << 23)));
    float subnormal = float(magnitude) * 0x1p-24f;
    return sign ? -subnormal : subnormal;
}

template <Dtype>
inline u16 from_float(float value);

template <>
inline u16 from_float<Dtype::bf16>(float value) {
    u32 bits = as_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return u16(bits >> 16 | 0x40);  // a quiet NaN
    return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <>
inline u16 from_float<Dtype::fp16>(float value) {
    u32 bits = as_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return u16(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return u16(sign | 0x7c00);  // rounds beyond 65504
    if (magnitude < 0x38800000) {  // subnormal: let fp32 addition round at 2^-24
        float rounded = as_float(magnitude) + 0.5f;
        return u16(sign | (as_bits(rounded) - 0x3f000000));
    }
    u32 rebased = magnitude - (112u << 23);
    return u16(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
}

}  // namespace
}  // namespace lscd
