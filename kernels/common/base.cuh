// What every GPU source begins with: functions that Python finds, and the division that rounds up.
#pragma once
#include <cstdint>
#include <type_traits>

#define LSCD_EXPORT extern "C" __attribute__((visibility("default")))

namespace lscd {

template <class A, class B>
__host__ __device__ constexpr std::common_type_t<A, B> ceil_div(A a, B b) {
    return (a + b - 1) / b;
}

}  // namespace lscd
