// fp16 for the emulator.
#pragma once
#include "../instructions/floats.h"

inline float __half2float(__half value) { return lscd::simt::to_float(value); }
inline __half __float2half_rn(float value, lscd::simt::Site site = lscd::simt::here()) {
    return lscd::simt::to_half(lscd::simt::known(value, site));
}
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
