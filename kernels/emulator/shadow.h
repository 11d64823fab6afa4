// What the emulator knows of each byte of a block's shared memory: who touched it last, and whether a
// cp.async is still under way. From that it tells races, missing waits, and reads of nothing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "request.h"

namespace lscd::simt {

// A thread, and how often its block and its warp have synchronised.
struct Moment {
    int block_epoch, warp_epoch, warp, lane;
};

// Lanes of a warp that touched a byte between two synchronisations.
struct Touch {
    int block_epoch = 0, warp_epoch = 0;  // epochs count from 1
    int warp = 0;
    uint32_t lanes = 0;
    Site site = {nullptr, 0};

    // Whether nothing orders this before what happens now.
    bool races_with(const Moment& now) const {
        if (block_epoch != now.block_epoch) return false;
        if (warp != now.warp) return true;
        return warp_epoch == now.warp_epoch && (lanes & ~(1u << now.lane));
    }
    void add(const Moment& now, Site where) {
        bool together = block_epoch == now.block_epoch && warp == now.warp &&
                        warp_epoch == now.warp_epoch;
        *this = {now.block_epoch, now.warp_epoch, now.warp,
                 (together ? lanes : 0) | 1u << now.lane, where};
    }
    std::string who() const {
        std::string text;
        for (int lane = 0; lane < 32; lane++)
            if (lanes >> lane & 1) text += (text.empty() ? "" : ", ") + std::to_string(lane);
        return "warp " + std::to_string(warp) + ", lane " + text;
    }
};

// One byte. Reads of the last two warps are kept: a write by any warp then meets a reader of another.
struct Cell {
    Touch written, read, read_before;
    bool in_flight = false;  // `written` is a cp.async that its thread has not waited for
};

class Shadow {
    std::vector<Cell> cells;

    std::string conflict(const Cell& cell, const Touch& other, const char* did) const {
        if (cell.in_flight)
            return "cp.async of " + cell.written.who() + " at " + cell.written.site.text() +
                   " may still be writing: no wait between";
        return std::string(did) + " by " + other.who() + " at " + other.site.text() +
               ": no barrier between";
    }

  public:
    // Forgets everything: a new block starts with nothing written.
    void reset(size_t bytes) { cells.assign(bytes, Cell()); }
    int64_t bytes() const { return int64_t(cells.size()); }

    // Each of these returns what is wrong with an access by `now`, or nothing.
    std::string read(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            if (cell.in_flight || cell.written.races_with(now))
                return conflict(cell, cell.written, "race: written");
            if (!cell.written.block_epoch) return "nothing has been written there";
            if (cell.read.warp != now.warp) cell.read_before = cell.read;
            cell.read.add(now, site);
        }
        return "";
    }

    std::string write(int64_t at, int bytes, const Moment& now, Site site, bool asynchronous) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            if (cell.in_flight || cell.written.races_with(now))
                return conflict(cell, cell.written, "race: written");
            for (const Touch* reader : {&cell.read, &cell.read_before})
                if (reader->races_with(now)) return conflict(cell, *reader, "race: read");
            cell.written.add(now, site);
            cell.in_flight = asynchronous;
        }
        return "";
    }

    // The cp.async of these bytes is done: it counts as a write of its thread, made now.
    void arrive(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            cells[size_t(i)].in_flight = false;
            cells[size_t(i)].written = Touch();
            cells[size_t(i)].written.add(now, site);
        }
    }
};

}  // namespace lscd::simt
