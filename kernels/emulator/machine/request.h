// Requests: what the lanes of a warp do together at one source line, and what it costs the hardware.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lscd::simt {

// A place in the sources. `Site site = here()` as a default argument is the place of the call.
struct Site {
    const char* file;
    int line;

    bool operator==(const Site& other) const { return file == other.file && line == other.line; }
    bool operator<(const Site& other) const {
        return file < other.file || (file == other.file && line < other.line);
    }
    std::string text() const {
        std::string path = file ? file : "?";
        return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line);
    }
};

constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
}

// Numbered as OPERATIONS in lab_utils/analysis/kernel_trace.py.
enum class Op : int32_t {
    shared_load, shared_store, ldmatrix, cp_async, commit, wait, global_load, global_store,
    atomic, mma, shuffle, vote, popcount, barrier, warp_barrier,
    stmatrix, mbarrier, bulk_copy, bmma, mma_sp, wgmma, wgmma_sp, wgmma_wait
};

struct Span {
    int64_t at, bytes;
};

// What one lane does: with bytes of shared memory (an offset), of global memory (an address), or none.
struct Access {
    Op op;
    Site site;
    Span shared = {0, 0}, global = {0, 0};
    int32_t pending = -1;  // of a wait: the lane's latest groups of copies that it does not wait for
};

// Sums over requests. Wavefronts and sectors each with the least that could carry the same bytes.
struct Counts {
    int64_t requests = 0, lanes = 0;
    int64_t wavefronts = 0, least_wavefronts = 0, sectors = 0, least_sectors = 0;

    void operator+=(const Counts& more) {
        requests += more.requests, lanes += more.lanes;
        wavefronts += more.wavefronts, least_wavefronts += more.least_wavefronts;
        sectors += more.sectors, least_sectors += more.least_sectors;
    }
};

struct Line {
    Op op;
    Site site;
    int32_t launch;
    Counts counts;
};

struct Request {
    Line line;
    int32_t block, warp, pending;
    uint32_t lanes;  // a bit for each that takes part
    Span shared[32], global[32];
};

// Shared memory delivers 32 words of 4 bytes at a time, one from each bank. Global memory comes in
// sectors.
constexpr int BANKS = 32, WORD = 4, SECTOR = 32;

// The different units of `size` bytes that these touch, in order.
inline std::vector<int64_t> units(const Span* spans, int count, int size) {
    std::vector<int64_t> found;
    for (const Span* one = spans; one < spans + count; one++)
        for (int64_t unit = one->at / size; one->bytes && unit * size < one->at + one->bytes; unit++)
            found.push_back(unit);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// Wavefronts of lanes that go together: the most different words that one bank must deliver.
inline int conflicts(const Request& r, int first, int count) {
    int in_bank[BANKS] = {}, most = 0;
    for (int64_t word : units(r.shared + first, count, WORD))
        most = std::max(most, ++in_bank[word % BANKS]);
    return most;
}

// Whether all active lanes ask for what their neighbours (lane ^ step) ask for.
inline bool paired(const Request& r, int step) {
    for (int lane = 0; lane < 32; lane++) {
        const Span &mine = r.shared[lane], &other = r.shared[lane ^ step];
        if (mine.bytes && other.bytes && mine.at != other.at) return false;
    }
    return true;
}

// Accesses of 8 bytes go by half warps, of 16 bytes by quarter warps, as do the rows of ldmatrix; bulk
// copies one by one. A load whose lanes come in equal pairs goes by parts twice as large, if these are
// without conflict.
inline int wavefronts(const Request& r) {
    int64_t widest = 0;
    for (const Span& one : r.shared) widest = std::max(widest, one.bytes);
    int part = widest <= 4 ? 32 : widest == 8 ? 16 : widest == 16 ? 8 : 1, sum = 0, joined = 0;
    for (int lane = 0; lane < 32; lane += part) sum += conflicts(r, lane, part);
    if (r.line.op != Op::shared_load || part == 32 || !(paired(r, 1) || paired(r, 2))) return sum;
    for (int lane = 0; lane < 32; lane += 2 * part) {
        int most = conflicts(r, lane, 2 * part);
        if (most > 1) return sum;
        joined += most;
    }
    return joined;
}

// What wgmma reads passes as neither wavefronts nor sectors.
inline Counts costs(const Request& r) {
    Counts found = {1, __builtin_popcount(r.lanes)};
    if (r.line.op == Op::wgmma) return found;
    auto different = [](const Span* spans, int size) { return int64_t(units(spans, 32, size).size()); };
    found.wavefronts = wavefronts(r);
    found.least_wavefronts = (different(r.shared, WORD) + BANKS - 1) / BANKS;
    found.sectors = different(r.global, SECTOR);
    found.least_sectors = (different(r.global, 1) + SECTOR - 1) / SECTOR;
    return found;
}

}  // namespace lscd::simt
