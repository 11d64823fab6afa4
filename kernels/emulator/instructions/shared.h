// Shared memory of common/ptx.cuh, by pointer and by address.
#pragma once
#include "global.h"

namespace lscd::simt {

template <class T>
T load_shared(const T* from, Site site) {
    read_shared(Op::shared_load, "load", from, sizeof(T), site);
    return *from;
}
template <class T>
void store_shared(T* to, T value, Site site) {
    write_shared(Op::shared_store, "store", to, sizeof(T), site);
    *to = value;
}
template <class T>
T* shared_at(Address address) {
    return reinterpret_cast<T*>(shared_memory(address));
}

}  // namespace lscd::simt

namespace lscd {

template <class T>
class Shared {
    T* data;

    enum class Known { inside };  // of the block's memory
    Shared(T* data, Known) : data(data) {}
    template <class U>
    friend class Shared;

  public:
    explicit Shared(void* memory, simt::Site site = simt::here())
        : data(reinterpret_cast<T*>(simt::find_shared(memory, site))) {}
    T load(int i, simt::Site site = simt::here()) const { return load_shared(at(i), site); }
    void store(int i, T value, simt::Site site = simt::here()) const { store_shared(at(i), value, site); }
    void store_min(int i, T value, simt::Site site = simt::here()) const {
        change_shared(at(i), sizeof(T), site);
        data[i] = data[i] < value ? data[i] : value;
    }
    Shared operator+(int i) const { return Shared(data + i, Known::inside); }
    template <class U>
    Shared<U> as() const {
        return Shared<U>(reinterpret_cast<U*>(data), Shared<U>::Known::inside);
    }
    T* at(int i) const {  // in the block's own part, or in none
        return reinterpret_cast<T*>(simt::in_part(simt::in_own_part(data + i), simt::rank()));
    }
    Address address(int i) const { return simt::shared_address(data + i); }
};

inline Address shared_address(void* memory, simt::Site site = simt::here()) {
    return simt::shared_address(simt::find_shared(memory, site));
}
inline void st_shared(Address to, uint32_t value, simt::Site site = simt::here()) {
    store_shared(simt::shared_at<uint32_t>(to), value, site);
}
inline void st_shared_u16(Address to, uint32_t value, simt::Site site = simt::here()) {
    store_shared(simt::shared_at<uint16_t>(to), uint16_t(value), site);
}
inline void st_shared_v2(Address to, uint2 value, simt::Site site = simt::here()) {
    store_shared(simt::shared_at<uint2>(to), value, site);
}
inline void st_shared_v4(Address to, uint4 value, simt::Site site = simt::here()) {
    store_shared(simt::shared_at<uint4>(to), value, site);
}
inline uint32_t ld_shared_u8(Address from, simt::Site site = simt::here()) {
    return load_shared(simt::shared_at<uint8_t>(from), site);
}
inline uint32_t ld_shared_u16(Address from, simt::Site site = simt::here()) {
    return load_shared(simt::shared_at<uint16_t>(from), site);
}
inline int32_t ld_shared_s16(Address from, simt::Site site = simt::here()) {
    return load_shared(simt::shared_at<int16_t>(from), site);
}
inline uint32_t ld_shared(Address from, simt::Site site = simt::here()) {
    return load_shared(simt::shared_at<uint32_t>(from), site);
}
inline uint2 ld_shared_v2(Address from, simt::Site site = simt::here()) {
    return load_shared(simt::shared_at<uint2>(from), site);
}
inline uint4 ld_shared_v4(Address from, simt::Site site = simt::here()) {
    return load_shared(simt::shared_at<uint4>(from), site);
}
inline uint32_t ld_shared_halves(Address from, simt::Site site = simt::here()) {
    uint32_t low = ld_shared_u16(from, site);
    return low | ld_shared_u16(from + 2, site) << 16;
}
inline uint32_t ld_shared_if(uint32_t condition, Address from, simt::Site site = simt::here()) {
    return condition ? ld_shared(from, site) : 0;
}
inline uint32_t one_bit(uint32_t word, int bit) { return word & 1u << bit; }
template <int SHIFT>
inline Address add_bit(Address at, uint32_t own, int bit) {
    return at + (own >> bit << SHIFT);
}

// What the compiler must not see through, and what says nothing here.
inline uint32_t keep(uint32_t value) { return value; }
template <class T>
inline T anew(T value) {
    return value;
}
inline uint64_t evict_first() { return 0; }
inline uint64_t evict_last() { return 0; }

}  // namespace lscd
