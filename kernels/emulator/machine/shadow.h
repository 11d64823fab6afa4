// What the machine knows of each byte of a block's shared memory: who touched it last, and what may be
// under way there. From that it tells races, missing waits, and reads of nothing.
#pragma once
#include "order.h"

namespace lscd::simt {

// The blocks of a cluster have a part each of one shared memory. Parts begin so far apart that what lies
// beyond one is in no other.
constexpr int64_t PART = 1 << 18;

// How a byte is written. By an asynchronous copy it is until its thread has waited, from when on it is
// a STORE, or for all who do not know that a clock has passed a time.
struct Writing {
    const char* by = nullptr;  // what is under way
    int clock = -1, time = 0;

    bool is_over(const Moment& now) const { return now.known->covers(clock, time, ~0u); }
};
inline constexpr Writing STORE, ATOMIC;

// A copy that reads a byte, and by whom, for all who do not know that what it writes is written.
struct Source {
    const Writing* copy;
    Touch by;
};

// One byte. The reads of two warps are kept: whichever warp writes, one of them is another's.
struct Cell {
    Touch written, read, read_before;
    const Writing* how = &STORE;
    int64_t when = 0;  // it was written, among all writes of the block
    int reading = 0;   // reads of wgmma under way; the latest of them:
    Touch reader;
    const Source* source = nullptr;  // of the latest copy to another block

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
        if (source && !source->copy->is_over(now))
            return source->copy->by + (" by " + source->by.text()) + " may still be reading: no wait between";
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
        if (how->by && !how->is_over(now))
            return how->by + (" by " + written.text()) + " may still be writing: no wait between";
        if (!how->by && written.races_with(now))
            return "a race: written by " + written.text() + ", no barrier between";
        return {};
    }
};

struct Shadow {
    std::vector<Cell> cells;  // of all parts
    int64_t of_part = 0;      // bytes
    int64_t writes = 0;

    // Forgets everything: new blocks start with nothing written.
    void reset(int64_t bytes, int parts) {
        cells.assign(size_t(bytes * parts), Cell()), of_part = bytes, writes = 0;
    }
    Cell& operator[](int64_t at) { return cells[size_t(at / PART * of_part + at % PART)]; }

    // What is wrong with where an access lies, or nothing.
    std::string outside(int64_t at, int bytes) const {
        bool in_a_part = at >= 0 && size_t(at / PART * of_part) < cells.size();
        if (in_a_part && at % PART + bytes <= of_part) return {};
        return "out of bounds, the block has " + std::to_string(of_part) + " bytes";
    }

    // A write that happens now, or starts now; `how` must outlive what it says. A copy that has been
    // waited for counts as a store of its thread, made now.
    void note_write(int64_t at, int bytes, const Moment& now, Site site, const Writing& how) {
        writes++;
        for (Cell* cell = &(*this)[at]; bytes--; cell++)
            cell->written.add(now, site), cell->how = &how, cell->when = writes;
    }
};

}  // namespace lscd::simt
