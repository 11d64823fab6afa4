// What the emulator knows of each byte of a block's shared memory: who touched it last, and whether an
// asynchronous copy is still under way. From that it tells races, missing waits, and reads of nothing.
#pragma once
#include <map>

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

// What a lane knows through mbarriers that it has waited for, and passes on where it synchronises: of
// each mbarrier, the phases that are over; of each other warp, what it did before it arrived.
struct Knowledge {
    struct Arrived {
        int warp_epoch;
        uint32_t lanes;  // of that epoch, whether before they arrived or after; of earlier ones, all
    };
    std::map<int64_t, int> phases;
    std::map<int, Arrived> warps;

    void learn(int warp, Arrived arrived) {
        Arrived& known = warps.try_emplace(warp, arrived).first->second;
        if (known.warp_epoch == arrived.warp_epoch) known.lanes |= arrived.lanes;
        if (known.warp_epoch < arrived.warp_epoch) known = arrived;
    }
    void learn(const Knowledge& other) {
        for (auto [barrier, phase] : other.phases) phases[barrier] = std::max(phases[barrier], phase);
        for (auto [warp, arrived] : other.warps) learn(warp, arrived);
    }
    bool phase_is_over(int64_t barrier, int phase) const {
        auto found = phases.find(barrier);
        return found != phases.end() && found->second > phase;
    }
    bool covers(int warp, int warp_epoch, uint32_t lanes) const {
        auto found = warps.find(warp);
        if (found == warps.end() || found->second.warp_epoch < warp_epoch) return false;
        return found->second.warp_epoch > warp_epoch || !(lanes & ~found->second.lanes);
    }
};

// A thread, how often its block and its warp have synchronised, and what else it knows.
struct Moment {
    int block_epoch, warp_epoch, warp, lane;
    const Knowledge* known;
};

// Lanes of a warp that touched a byte between two synchronisations.
struct Touch {
    int block_epoch = 0, warp_epoch = 0;  // 0: never
    int warp = 0;
    uint32_t lanes = 0;
    Site site = {nullptr, 0};

    // Whether nothing orders this before what happens now.
    bool races_with(const Moment& now) const {
        if (block_epoch != now.block_epoch || now.known->covers(warp, warp_epoch, lanes)) return false;
        return warp != now.warp || (warp_epoch == now.warp_epoch && (lanes & ~(1u << now.lane)));
    }
    void add(const Moment& now, Site where) { add(now, 1u << now.lane, where); }
    // Of a wgmma: no lane's, and all of them have waited for it.
    void add_wgmma(const Moment& now, Site where) { add(now, 0, where); }
    std::string text() const {
        std::string who = lanes ? lanes_text(lanes) : "wgmma";
        return "warp " + std::to_string(warp) + ", " + who + " at " + site.text();
    }

  private:
    void add(const Moment& now, uint32_t more, Site where) {
        bool together = block_epoch == now.block_epoch && warp == now.warp &&
                        warp_epoch == now.warp_epoch;
        *this = {now.block_epoch, now.warp_epoch, now.warp, (together ? lanes : 0) | more, where};
    }
};

// How a byte is written: by cp.async it is in flight until its thread has waited for it; by a bulk copy
// it is for everybody who has not waited for its phase of its mbarrier.
enum class Write { store, cp_async, atomic, bulk_copy };

// One byte. The reads of two warps are kept: whichever warp writes, one of them is another's.
struct Cell {
    Touch written, read, read_before;
    Write how = Write::store;
    int32_t barrier = 0, phase = 0;  // of a bulk copy
    int32_t fences = 0;              // of the proxies, that its writer had made before
    int32_t wgmmas = 0;              // that are under way and read it; the latest of them:
    int32_t wgmma_warp = 0;
    Site wgmma = {nullptr, 0};
};

class Shadow {
    std::vector<Cell> cells;
    std::vector<std::vector<Touch>> fences;  // of the proxies, by thread

    static size_t thread(const Touch& one) {
        return size_t(one.warp) * 32 + size_t(__builtin_ctz(one.lanes));
    }

    // What is wrong with a read of the asynchronous proxy: stores are seen behind a fence of their
    // thread, which happened before.
    std::string unfenced(const Cell& cell, const Moment& now) const {
        if (cell.how == Write::bulk_copy) return "";
        const auto& made = fences[thread(cell.written)];
        if (made.size() > size_t(cell.fences) && !made[size_t(cell.fences)].races_with(now)) return "";
        return "written by " + cell.written.text() + " in another proxy, no fence between";
    }

    static std::string overlap(const Cell& cell, const Moment& now) {
        if (cell.how == Write::cp_async)
            return "a cp.async by " + cell.written.text() + " may still be writing: no wait between";
        if (cell.how == Write::bulk_copy) {
            if (now.known->phase_is_over(cell.barrier, cell.phase)) return "";
            return "a bulk copy by " + cell.written.text() + " may still be writing: no wait between";
        }
        if (cell.written.races_with(now))
            return "a race: written by " + cell.written.text() + ", no barrier between";
        return "";
    }

  public:
    // Forgets everything: a new block starts with nothing written.
    void reset(size_t bytes, size_t threads) {
        cells.assign(bytes, Cell());
        fences.assign((threads + 31) / 32 * 32, {});
    }
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
            if (cell.wgmmas)
                return "a wgmma of warp " + std::to_string(cell.wgmma_warp) + " at " +
                       cell.wgmma.text() + " may still be reading: no wait between";
            for (const Touch* reader : {&cell.read, &cell.read_before})
                if (reader->races_with(now))
                    return "a race: read by " + reader->text() + ", no barrier between";
            cell.written.add(now, site);
            cell.how = how, cell.fences = fences_of(now);
        }
        return "";
    }

    // The phase of the mbarrier at `barrier` that a bulk copy, which has just been written, belongs to.
    void belongs(int64_t at, int64_t bytes, int64_t barrier, int phase) {
        for (int64_t i = at; i < at + bytes; i++)
            cells[size_t(i)].barrier = int32_t(barrier), cells[size_t(i)].phase = phase;
    }

    // A cp.async is done: it counts as a write of its thread, made now.
    void arrive(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            cell.how = Write::store, cell.fences = fences_of(now);
            cell.written.add(now, site);
        }
    }

    // A fence between the proxies, of what its thread has stored.
    void fence(const Moment& now, Site site) {
        Touch one;
        one.add(now, site);
        fences[thread(one)].push_back(one);
    }

    // What is wrong with a wgmma that reads from now on, or nothing.
    std::string begin_wgmma(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            if (std::string wrong = overlap(cell, now); !wrong.empty()) return wrong;
            if (!cell.written.block_epoch) return "nothing has been written there yet";
            if (std::string wrong = unfenced(cell, now); !wrong.empty()) return wrong;
            cell.wgmmas++, cell.wgmma_warp = now.warp, cell.wgmma = site;
        }
        return "";
    }

    // It has been waited for: it counts as a read made now.
    void end_wgmma(int64_t at, int bytes, const Moment& now, Site site) {
        for (int64_t i = at; i < at + bytes; i++) {
            Cell& cell = cells[size_t(i)];
            if (cell.read.warp != now.warp) cell.read_before = cell.read;
            cell.read.add_wgmma(now, site), cell.wgmmas--;
        }
    }

  private:
    int32_t fences_of(const Moment& now) const {
        return int32_t(fences[size_t(now.warp * 32 + now.lane)].size());
    }
};

}  // namespace lscd::simt
