// What the machine knows of each byte of a block's shared memory: who touched it last, and what may be
// under way there. From that it tells races, missing waits, and reads of nothing.
#pragma once
#include "order.h"

namespace lscd::simt {

// How a byte is written. By an asynchronous copy it is until its thread has waited, from when on it is
// a STORE, or for all who do not know that a clock has passed a time.
struct Writing {
    const char* by = nullptr;  // what is under way
    int clock = -1, time = 0;
};
inline constexpr Writing STORE, ATOMIC;

// One byte. The reads of two warps are kept: whichever warp writes, one of them is another's.
struct Cell {
    Touch written, read, read_before;
    const Writing* how = &STORE;
    int64_t when = 0;  // it was written, among all writes of the block
    int reading = 0;   // reads of wgmma under way; the latest of them:
    Touch reader;

    // Why its value is not known now, or nothing.
    std::string unreadable(const Moment& now) const {
        if (std::string wrong = overlap(now); !wrong.empty()) return wrong;
        if (!written.time) return "nothing has been written there yet";
        return {};
    }
    std::string unwritable(const Moment& now, const Writing& writing) const {
        bool atomics = &writing == &ATOMIC && how == &ATOMIC;
        if (std::string wrong = overlap(now); !atomics && !wrong.empty()) return wrong;
        if (&writing == &ATOMIC && !written.time) return "nothing has been written there yet";
        if (reading)
            return "a wgmma of warp " + std::to_string(reader.warp) + " at " + reader.site.text() +
                   " may still be reading: no wait between";
        for (const Touch* one : {&read, &read_before})
            if (one->races_with(now)) return "a race: read by " + one->text() + ", no barrier between";
        return {};
    }
    void note_read(const Moment& now, Site site, uint32_t lanes) {
        if (read.warp != now.warp) read_before = read;
        read.add(now, site, lanes);
    }

  private:
    std::string overlap(const Moment& now) const {
        if (how->by && !now.known->covers(how->clock, how->time, ~0u))
            return how->by + (" by " + written.text()) + " may still be writing: no wait between";
        if (!how->by && written.races_with(now))
            return "a race: written by " + written.text() + ", no barrier between";
        return {};
    }
};

struct Shadow {
    std::vector<Cell> cells;  // by address
    int64_t writes = 0;

    // Forgets everything: a new block starts with nothing written.
    void reset(size_t bytes) { cells.assign(bytes, Cell()), writes = 0; }
    Cell& operator[](int64_t at) { return cells[size_t(at)]; }

    // What is wrong with where an access lies, or nothing.
    std::string outside(int64_t at, int bytes) const {
        if (at >= 0 && size_t(at) + size_t(bytes) <= cells.size()) return {};
        return "out of bounds, the block has " + std::to_string(cells.size()) + " bytes";
    }

    // A write that happens now, or starts now; `how` must outlive what it says. A copy that has been
    // waited for counts as a store of its thread, made now.
    void note_write(int64_t at, int bytes, const Moment& now, Site site, const Writing& how) {
        writes++;
        for (Cell* cell = &cells[size_t(at)]; bytes--; cell++)
            cell->written.add(now, site), cell->how = &how, cell->when = writes;
    }
};

}  // namespace lscd::simt
