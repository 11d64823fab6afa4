// Scratch memory, 64-byte aligned and zeroed; without `data` where there was none. It does not throw:
// nothing could leave a thread of a team.
#pragma once
#include <new>

#include "../common.h"

namespace lscd {
namespace {

template <class T>
struct Buffer {
    T* data;
    explicit Buffer(i64 count)
        : data((T*)operator new(count * sizeof(T), std::align_val_t(64), std::nothrow)) {
        if (data) memset((void*)data, 0, count * sizeof(T));
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() { operator delete(data, std::align_val_t(64)); }
};

}  // namespace
}  // namespace lscd
