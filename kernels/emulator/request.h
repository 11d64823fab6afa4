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

// Numbered as in lab_utils/backends/kernel_trace.py.
enum class Op : int32_t {
    shared_load, shared_store, ldmatrix, cp_async, global_load, global_store,
    mma, shuffle, vote, popcount, barrier
};

// What one lane does: bytes of shared memory (an offset), of global memory (an address), or of none.
struct Access {
    Op op;
    Site site;
    int64_t shared = 0;
    int32_t shared_bytes = 0, global_bytes = 0;
    uint64_t global = 0;
};

// The accesses of a warp's lanes at one line, issued as one instruction.
struct Request {
    Op op;
    int32_t launch, block, warp, line;
    uint32_t lanes;  // a bit for each that takes part
    const char* file;
    int32_t shared[32], shared_bytes[32], global_bytes[32];
    uint64_t global[32];
    int32_t wavefronts, least_wavefronts, sectors, least_sectors;
};

constexpr int BANKS = 32, WORD = 4, SECTOR = 32;

// Wavefronts of lanes [first, first + count): the most different words that one bank must deliver.
inline int phase_wavefronts(const Request& r, int first, int count) {
    std::vector<int> words;
    for (int lane = first; lane < first + count; lane++)
        for (int at = r.shared[lane] / WORD; at * WORD < r.shared[lane] + r.shared_bytes[lane]; at++)
            words.push_back(at);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int in_bank[BANKS] = {}, most = 0;
    for (int word : words) most = std::max(most, ++in_bank[word % BANKS]);
    return most;
}

// Whether each lane's partner (lane ^ step) is idle or asks for the same address.
inline bool paired(const Request& r, int first, int count, int step) {
    for (int lane = first; lane < first + count; lane++) {
        int partner = lane ^ step;
        bool both = r.shared_bytes[lane] && r.shared_bytes[partner];
        if (both && r.shared[lane] != r.shared[partner]) return false;
    }
    return true;
}

// Wavefronts in shared memory. 32 banks deliver 4 bytes each: accesses of 8 bytes go by half warps,
// of 16 bytes by quarter warps, and two such parts go at once where all lanes come in equal pairs.
// Every row group of ldmatrix goes alone.
inline int wavefronts(const Request& r) {
    int widest = *std::max_element(r.shared_bytes, r.shared_bytes + 32), sum = 0;
    if (widest == 0) return 0;
    int part = widest <= 4 ? 32 : widest == 8 ? 16 : 8;
    for (int first = 0; first < 32;) {
        int two = 2 * part;
        bool joined = part < 32 && r.op != Op::ldmatrix && first % two == 0 &&
                      (paired(r, first, two, 1) || paired(r, first, two, 2));
        sum += phase_wavefronts(r, first, joined ? two : part);
        first += joined ? two : part;
    }
    return sum;
}

// The fewest wavefronts that deliver these bytes: 128 different ones at a time.
inline int least_wavefronts(const Request& r) {
    std::vector<int> words;
    for (int lane = 0; lane < 32; lane++)
        for (int at = r.shared[lane] / WORD; at * WORD < r.shared[lane] + r.shared_bytes[lane]; at++)
            words.push_back(at);
    std::sort(words.begin(), words.end());
    auto different = std::unique(words.begin(), words.end()) - words.begin();
    return int((different + BANKS - 1) / BANKS);
}

// 32-byte sectors of global memory that the lanes touch, and the fewest that could hold the bytes.
inline std::pair<int, int> sectors(const Request& r) {
    std::vector<std::pair<uint64_t, uint64_t>> spans;
    for (int lane = 0; lane < 32; lane++)
        if (r.global_bytes[lane])
            spans.emplace_back(r.global[lane], r.global[lane] + r.global_bytes[lane]);
    std::sort(spans.begin(), spans.end());
    uint64_t end = 0, next_sector = 0, bytes = 0, touched = 0;
    for (auto [from, to] : spans) {
        bytes += to - std::min(to, std::max(from, end));
        end = std::max(end, to);
        uint64_t first = std::max(from / SECTOR, next_sector), last = (to - 1) / SECTOR;
        if (last + 1 > first) touched += last + 1 - first, next_sector = last + 1;
    }
    return {int(touched), int((bytes + SECTOR - 1) / SECTOR)};
}

}  // namespace lscd::simt
