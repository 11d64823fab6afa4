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
    std::string text() const {
        std::string path = file ? file : "?";
        return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line);
    }
};

constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
}

// Numbered as OPERATIONS in lab_utils/backends/kernel_trace.py.
enum class Op : int32_t {
    shared_load, shared_store, ldmatrix, cp_async, commit, wait, global_load, global_store,
    atomic, mma, shuffle, vote, popcount, barrier, warp_barrier,
    stmatrix, mbarrier, bulk_copy, bmma, mma_sp, wgmma, wgmma_sp, wgmma_wait
};

// What one lane does: with bytes of shared memory (an offset), of global memory (an address), or none.
struct Access {
    Op op;
    Site site;
    int64_t shared = 0;
    int32_t shared_bytes = 0, global_bytes = 0;
    uint64_t global = 0;
    int32_t pending = -1;  // of a wait: the lane's latest groups of copies that it does not wait for
};

// Shared memory delivers 32 words of 4 bytes at a time, one from each bank. Global memory comes in
// sectors.
constexpr int BANKS = 32, WORD = 4, SECTOR = 32;

struct Costs {
    int32_t wavefronts, least_wavefronts, sectors, least_sectors;
};

struct Request {
    Op op;
    int32_t launch, block, warp, line;
    uint32_t lanes;  // a bit for each that takes part
    const char* file;
    int32_t shared[32], shared_bytes[32], global_bytes[32];
    uint64_t global[32];
    Costs costs;
    int32_t pending;

    void add(int lane, const Access& a) {
        lanes |= 1u << lane;
        shared[lane] = int32_t(a.shared), shared_bytes[lane] = a.shared_bytes;
        global[lane] = a.global, global_bytes[lane] = a.global_bytes;
        pending = a.pending;
    }
};

// The different words that lanes [first, first + count) touch, in order.
inline std::vector<int> words(const Request& r, int first, int count) {
    std::vector<int> found;
    for (int lane = first; lane < first + count; lane++)
        for (int at = r.shared[lane]; at < r.shared[lane] + r.shared_bytes[lane]; at += WORD)
            found.push_back(at / WORD);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// Wavefronts of lanes that go together: the most different words that one bank must deliver.
inline int conflicts(const Request& r, int first, int count) {
    int in_bank[BANKS] = {}, most = 0;
    for (int word : words(r, first, count)) most = std::max(most, ++in_bank[word % BANKS]);
    return most;
}

// Whether all active lanes ask for what their neighbours (lane ^ step) ask for.
inline bool paired(const Request& r, int step) {
    for (int lane = 0; lane < 32; lane++) {
        bool both = r.shared_bytes[lane] && r.shared_bytes[lane ^ step];
        if (both && r.shared[lane] != r.shared[lane ^ step]) return false;
    }
    return true;
}

// Accesses of 8 bytes go by half warps, of 16 bytes by quarter warps, as do the rows of ldmatrix; bulk
// copies one by one. A load whose lanes come in equal pairs goes by parts twice as large, if these are
// without conflict.
inline int wavefronts(const Request& r) {
    int widest = *std::max_element(r.shared_bytes, r.shared_bytes + 32);
    int part = widest <= 4 ? 32 : widest == 8 ? 16 : widest == 16 ? 8 : 1, sum = 0, joined = 0;
    for (int lane = 0; lane < 32; lane += part) sum += conflicts(r, lane, part);
    if (r.op != Op::shared_load || part == 32 || !(paired(r, 1) || paired(r, 2))) return sum;
    for (int lane = 0; lane < 32; lane += 2 * part) {
        int most = conflicts(r, lane, 2 * part);
        if (most > 1) return sum;
        joined += most;
    }
    return joined;
}

// Wavefronts and sectors, each with the least that could carry the same bytes. What wgmma reads passes
// neither.
inline Costs costs(const Request& r) {
    if (r.op == Op::wgmma) return {};
    std::vector<std::pair<uint64_t, uint64_t>> spans;
    for (int lane = 0; lane < 32; lane++)
        if (r.global_bytes[lane])
            spans.emplace_back(r.global[lane], r.global[lane] + r.global_bytes[lane]);
    std::sort(spans.begin(), spans.end());
    uint64_t end = 0, next_sector = 0, bytes = 0, sectors = 0;
    for (auto [from, to] : spans) {
        bytes += to - std::min(to, std::max(from, end));
        end = std::max(end, to);
        uint64_t first = std::max(from / SECTOR, next_sector), behind = (to - 1) / SECTOR + 1;
        if (behind > first) sectors += behind - first, next_sector = behind;
    }
    int least = (int(words(r, 0, 32).size()) + BANKS - 1) / BANKS;
    return {wavefronts(r), least, int(sectors), int((bytes + SECTOR - 1) / SECTOR)};
}

}  // namespace lscd::simt
