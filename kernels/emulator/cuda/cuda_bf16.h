// bf16 for the emulator.
#pragma once
#include "../floats.h"

inline float __bfloat162float(__nv_bfloat16 value) { return lscd::simt::to_float(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return lscd::simt::to_bfloat16(value); }
