// bf16 for the emulator.
#pragma once
#include "../instructions/floats.h"

inline float __bfloat162float(__nv_bfloat16 value) { return lscd::simt::to_float(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value, lscd::simt::Site site = lscd::simt::here()) {
    return lscd::simt::to_bfloat16(lscd::simt::known(value, site));
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
