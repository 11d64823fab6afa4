// What the emulator knows of each byte of a block's shared memory: who touched it last, and whether a
// cp.async is still under way. From that it tells races, missing waits, and reads of nothing.
#pragma once
#include "request.h"

namespace lscd::simt {

inline std::string lanes_text(uint32_t mask) {
    std::string text;
    for (int lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        int last = lane;
        while (last < 31 && mask >> (last + 1) & 1) last++;
        text += (text.empty() ? "" : ", ") + std::to_string(lane);
        if (last > lane) text += "-" + std::to_string(last);
        lane = last;
    }
    return (mask & (mask - 1) ? "lanes " : "lane ") + text;
}

// A thread, and how often its block and its warp have synchronised.
struct Moment {
    int block_epoch, warp_epoch, warp, lane;
};

// Lanes of a warp that touched a byte between two synchronisations.
struct Touch {
    int block_epoch = 0, warp_epoch = 0;  // 0: never
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
    std::string text() const {
        return "warp " + std::to_string(warp) + ", " + lanes_text(lanes) + " at " + site.text();
    }
};

// How a byte is written: by cp.async it is in flight until its thread has waited for it.
enum class Write { store, cp_async, atomic };

// One byte. The reads of two warps are kept: whichever warp writes, one of them is another's.
struct Cell {
    Touch written, read, read_before;
    Write how = Write::store;
};

class Shadow {
    std::vector<Cell> cells;

    static std::string overlap(const Cell& cell, const Moment& now) {
        if (cell.how == Write::cp_async)
            return "a cp.async by " + cell.written.text() + " may still be writing: no wait between";
        if (cell.written.races_with(now))
            return "a race: written by " + cell.written.text() + ", no barrier between";
        return "";
    }

  public:
    // Forgets everything: a new block starts with nothing written.
    void reset(size_t bytes) { cells.assign(bytes, Cell()); }
    int64_t bytes() const { return int64_t(cells.size()); }

    // What is wrong with a read that happens now, or nothing.
    std::string read(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            if (std::string wrong = overlap(cell, now); !wrong.empty()) return wrong;
            if (!cell.written.block_epoch) return "nothing has been written there yet";
            if (cell.read.warp != now.warp) cell.read_before = cell.read;
            cell.read.add(now, site);
        }
        return "";
    }

    // The same for a write that happens now, or starts now.
    std::string write(int64_t at, int bytes, const Moment& now, Site site, Write how) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            bool atomic = how == Write::atomic && cell.how == Write::atomic;
            if (std::string wrong = overlap(cell, now); !atomic && !wrong.empty()) return wrong;
            if (how == Write::atomic && !cell.written.block_epoch)
                return "nothing has been written there yet";
            for (const Touch* reader : {&cell.read, &cell.read_before})
                if (reader->races_with(now))
                    return "a race: read by " + reader->text() + ", no barrier between";
            cell.written.add(now, site);
            cell.how = how;
        }
        return "";
    }

    // A cp.async is done: it counts as a write of its thread, made now.
    void arrive(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            cells[size_t(i)].how = Write::store;
            cells[size_t(i)].written.add(now, site);
        }
    }
};

}  // namespace lscd::simt
