// What common/ptx.cuh declares, for the emulator: the same names, with the PTX manual's semantics.
#pragma once
#include "memory.h"
#include "warp.h"

namespace lscd {

template <class T>
class Shared {
    T* data;

    explicit Shared(T* data) : data(data) {}
    template <class U>
    friend class Shared;

  public:
    explicit Shared(void* memory, simt::Site site = simt::here()) : data(static_cast<T*>(memory)) {
        simt::find_shared(memory, site);
    }
    T load(int i, simt::Site site = simt::here()) const {
        simt::read_shared(simt::Op::shared_load, data + i, sizeof(T), site);
        return data[i];
    }
    void store(int i, T value, simt::Site site = simt::here()) const {
        simt::write_shared(data + i, sizeof(T), site);
        data[i] = value;
    }
    void store_min(int i, T value, simt::Site site = simt::here()) const {
        simt::change_shared(data + i, sizeof(T), site);
        data[i] = data[i] < value ? data[i] : value;
    }
    Shared operator+(int i) const { return Shared(data + i); }
    template <class U>
    Shared<U> as() const {
        return Shared<U>(reinterpret_cast<U*>(data));
    }
    T* at(int i) const { return data + i; }
};

template <class T>
T ld_global(const T* from, simt::Site site = simt::here()) {
    return simt::load_global(from, site);
}

template <class T>
void st_global(T* to, T value, simt::Site site = simt::here()) {
    simt::store_global(to, value, site);
}

template <class T>
void cp_async_16(Shared<T> to, int i, const void* from, int valid = 16,
                 simt::Site site = simt::here()) {
    simt::start_copy(to.at(i), from, valid, site);
}

inline void cp_async_commit(simt::Site site = simt::here()) { simt::commit_copies(site); }

template <int pending>
void cp_async_wait(simt::Site site = simt::here()) {
    simt::wait_copies(pending, site);
}

template <class T>
void ldmatrix_x4(uint32_t (&r)[4], Shared<T> from, int i, simt::Site site = simt::here()) {
    simt::ldmatrix<4>(r, from.at(i), site);
}

template <class T>
void ldmatrix_x2(uint32_t (&r)[2], Shared<T> from, int i, simt::Site site = simt::here()) {
    simt::ldmatrix<2>(r, from.at(i), site);
}

template <class T>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  simt::Site site = simt::here()) {
    simt::mma_m16n8k16<T>(d, a, b, site);
}

}  // namespace lscd
