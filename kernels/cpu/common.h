// What every host source shares: the export macro and a few one-liners.
#pragma once
#include <cstdint>
#include <cstring>

#define LSCD_EXPORT extern "C" __attribute__((visibility("default")))

namespace lscd {

using u8 = uint8_t;
using u16 = uint16_t;  // the bits of an fp16 or bf16 weight: encoders never look at its value
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

inline i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
inline i64 min(i64 a, i64 b) { return a < b ? a : b; }

}  // namespace lscd
