// What common/ptx.cuh declares, for the emulator: the same names, with the PTX manual's semantics.
#pragma once
#include "bulk.h"
#include "matrices.h"

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
        simt::write_shared(simt::Op::shared_store, data + i, sizeof(T), site);
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
    Address address(int i) const { return simt::shared_address(data + i); }
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

// --- shared memory by address ---

inline Address shared_address(void* memory, simt::Site site = simt::here()) {
    simt::find_shared(memory, site);
    return simt::shared_address(memory);
}

template <class T>
T ld_shared_as(Address from, simt::Site site) {
    const unsigned char* memory = simt::shared_memory(from);
    simt::read_shared(simt::Op::shared_load, memory, sizeof(T), site);
    T value;
    memcpy(&value, memory, sizeof value);
    return value;
}

inline void st_shared(Address to, uint32_t value, simt::Site site = simt::here()) {
    simt::write_shared(simt::Op::shared_store, simt::shared_memory(to), sizeof value, site);
    memcpy(simt::shared_memory(to), &value, sizeof value);
}
inline uint32_t ld_shared_u16(Address from, simt::Site site = simt::here()) {
    return ld_shared_as<uint16_t>(from, site);
}
inline uint32_t ld_shared(Address from, simt::Site site = simt::here()) {
    return ld_shared_as<uint32_t>(from, site);
}
inline uint2 ld_shared_v2(Address from, simt::Site site = simt::here()) {
    return ld_shared_as<uint2>(from, site);
}
inline uint4 ld_shared_v4(Address from, simt::Site site = simt::here()) {
    return ld_shared_as<uint4>(from, site);
}
inline uint32_t ld_shared_halves(Address from, simt::Site site = simt::here()) {
    uint32_t low = ld_shared_u16(from, site);
    return low | ld_shared_u16(from + 2, site) << 16;
}

inline void ldmatrix_x4_trans(uint32_t (&r)[4], Address from, simt::Site site = simt::here()) {
    simt::ldmatrix_transposed(r, simt::shared_memory(from), site);
}
inline void stmatrix_x4_trans(Address to, const uint4& r, simt::Site site = simt::here()) {
    uint32_t registers[4] = {r.x, r.y, r.z, r.w};
    simt::stmatrix_transposed(simt::shared_memory(to), registers, site);
}

inline uint32_t count_shared(Address at, simt::Site site = simt::here()) {
    auto* counter = simt::shared_memory(at);
    simt::count_in_turn(counter, site);
    uint32_t before;
    memcpy(&before, counter, sizeof before);
    uint32_t after = before + 1;
    memcpy(counter, &after, sizeof after);
    return before;
}

// --- mbarriers and bulk copies ---

inline void mbarrier_init(Address barrier, int arrivals, simt::Site site = simt::here()) {
    simt::make_mbarrier(simt::shared_memory(barrier), arrivals, site);
}
inline void mbarrier_init_fence() { simt::fence_mbarriers(); }
inline void mbarrier_arrive(Address barrier, simt::Site site = simt::here()) {
    simt::arrive(simt::shared_memory(barrier), 0, site);
}
inline void mbarrier_arrive_expect(Address barrier, uint32_t bytes, simt::Site site = simt::here()) {
    simt::arrive(simt::shared_memory(barrier), bytes, site);
}
inline void mbarrier_wait(Address barrier, uint32_t parity, simt::Site site = simt::here()) {
    simt::wait_for_phase(simt::shared_memory(barrier), parity, site);
}
inline uint64_t evict_first() { return 0; }
inline uint64_t evict_last() { return 0; }
inline void bulk_copy(Address to, const void* from, uint32_t bytes, Address barrier, uint64_t /*policy*/,
                      simt::Site site = simt::here()) {
    simt::start_bulk_copy(simt::shared_memory(to), from, bytes, simt::shared_memory(barrier), site);
}

// --- grids: one runs after another, whatever they say ---

inline void wait_for_previous_grid() { simt::Block::lane->after_grid = true; }
inline void let_next_grid_begin() {}

// --- more of the tensor core ---

inline void bmma_m16n8k128(uint32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b,
                           const uint32_t (&c)[4], simt::Site site = simt::here()) {
    simt::bmma_m16n8k128(d, a0, a1, b, c, site);
}
template <class T>  // k = 8 to 15 of k16: zeros
void mma_m16n8k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, simt::Site site = simt::here()) {
    uint32_t a[4] = {a0, a1, 0, 0}, two[2] = {b, 0};
    simt::mma_m16n8k16<T>(d, a, two, site);
}
template <class T, int STEP>
void mma_sp_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t metadata,
                     simt::Site site = simt::here()) {
    simt::mma_sp_m16n8k32<T, STEP>(d, a, b, metadata, site);
}
inline uint32_t keep(uint32_t value) { return value; }

}  // namespace lscd
