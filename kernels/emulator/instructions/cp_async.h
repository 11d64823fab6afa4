// cp.async of 16 bytes: they are read at once, and arrive in shared memory when the thread waits.
#pragma once
#include <deque>

#include "shared.h"

namespace lscd::simt {

inline constexpr Writing CP_ASYNC = {"a cp.async"};

struct Copy {
    int64_t to;
    Site site;
    unsigned char data[16];
};

struct Copies : State {  // of a lane
    std::vector<Copy> open;  // not committed yet
    std::deque<std::vector<Copy>> groups;
};

}  // namespace lscd::simt

namespace lscd {

template <class T>
void cp_async_16(Shared<T> to, int i, const void* from, int valid = 16,
                 simt::Site site = simt::here()) {
    simt::Copy copy = {begin_write("cp.async", to.at(i), 16, site, simt::CP_ASYNC), site, {}};
    if (valid) check_global("cp.async", from, valid, 16, false, site);
    memcpy(copy.data, from, size_t(valid));
    simt::note({simt::Op::cp_async, site, {copy.to, 16}, {int64_t(from), valid}});
    simt::Block::lane->states.of<simt::Copies>().open.push_back(copy);
}

inline void cp_async_commit(simt::Site site = simt::here()) {
    auto& copies = simt::Block::lane->states.of<simt::Copies>();
    simt::note({simt::Op::commit, site});
    copies.groups.push_back(std::move(copies.open));
    copies.open.clear();
}

template <int pending>
void cp_async_wait(simt::Site site = simt::here()) {
    simt::Block& block = *simt::Block::current;
    auto& groups = simt::Block::lane->states.of<simt::Copies>().groups;
    simt::note({simt::Op::wait, site, {}, {}, pending});
    for (; groups.size() > pending; groups.pop_front())
        for (const simt::Copy& copy : groups.front()) {
            memcpy(block.shared + copy.to, copy.data, sizeof copy.data);
            block.shadow.note_write(copy.to, sizeof copy.data, simt::Block::lane->now(), copy.site,
                                    simt::STORE);
        }
}

}  // namespace lscd
