// fp16 for the emulator.
#pragma once
#include "../floats.h"

inline float __half2float(__half value) { return lscd::simt::to_float(value); }
inline __half __float2half_rn(float value) { return lscd::simt::to_half(value); }
