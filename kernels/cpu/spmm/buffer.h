// Scratch memory of a thread: 64-byte aligned, zeroed.
#pragma once
#include <new>

#include "../common.h"

namespace lscd {
namespace {

template <class T>
struct Buffer {
    T* data;
    explicit Buffer(i64 count) : data((T*)operator new(count * sizeof(T), std::align_val_t(64))) {
        memset((void*)data, 0, count * sizeof(T));
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() { operator delete(data, std::align_val_t(64)); }
};

}  // namespace
}  // namespace lscd
