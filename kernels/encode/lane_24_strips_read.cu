// Lane 2:4 in strips on the GPU: counting non-zeros, and what can be wrong with a chunk. A warp has a
// chunk, and each lane its own words; problems are looked for in the order of their numbers, as
// kernels/cpu/encode/lane_24_strips_read.cpp does.
#include "lane_24_strips.cuh"

namespace lscd {
namespace {

using namespace lane_24;

constexpr int SIZE = 1, BANK = 2, HALF = 3, WORDS = 4, ENTRY = 5, INDEX = 6;
constexpr int OUTSIDE = 7, ZERO = 8, GARBAGE = 9;
constexpr int NONE = 16;
constexpr int MOST_BYTES = Sizes(MOST_LINES, 0xffff).bytes();

struct Entry {
    uint32_t value, row, column;  // row: a bit
    __device__ bool used() const { return row != 0; }
    __device__ bool sound() const { return !(row & (row - 1)) && value; }
};

// The bytes of a chunk, wherever it stands in A; all but the header only if its size is sound.
class Bytes {
    const uint8_t* bytes_;
    int64_t start_;  // in units of data

  public:
    int size;  // no more than MOST_BYTES + 1
    Sizes sizes{0, 0};
    int fours = 0;

    __device__ Bytes(const uint8_t* data, const int* chunk_start)
        : start_(ld_global(chunk_start + blockIdx.x)) {
        int64_t end = ld_global(chunk_start + blockIdx.x + 1);
        bytes_ = data + UNIT * start_;
        size = int(min(UNIT * (end - start_), int64_t(MOST_BYTES + 1)));
        if (size < STEPS) return;
        uint32_t stated = word(HEADER) >> 16;
        sizes.steps = int(LaneChunk::near_steps(stated) + LaneChunk::far_steps(stated));
        fours = int(LaneChunk::fours(stated));
        sizes.lines = (size - sizes.bytes()) / LINE;
    }
    __device__ uint32_t word(int at) const {
        return ld_global(reinterpret_cast<const uint32_t*>(bytes_ + at));
    }
    __device__ uint32_t half(int at) const {
        return ld_global(reinterpret_cast<const uint16_t*>(bytes_ + at));
    }
    __device__ uint32_t byte(int at) const { return ld_global(bytes_ + at); }
    // Of the lane.
    __device__ uint32_t halves(int step) const {
        return word(HALVES + LaneChunk::HALVES_OF_STEP * step + 4 * lane_id());
    }
    __device__ int words(int step) const { return __popc(halves(step) & FIRST_HALVES); }
    __device__ uint32_t bank() const { return byte(BANKS + lane_id()); }
    __device__ uint32_t line(int i, int bank) const {
        return word(sizes.lines_at() + LINE * i + 4 * bank);
    }
    __device__ uint32_t nibble(int order) const {
        return word(4 * metadata_word(order)) >> (nibble_shift() + 16 * (order & 1)) & 15;
    }
    __device__ Entry entry(int position) const {
        int step = position / PLACES;
        int at = step < NEAR ? near_at(step) : sizes.far_from() + STEP * (step - NEAR);
        int place = position % PLACES;
        return {half(at + value_at(place)), half(at + row_at(place)), byte(at + column_at(place))};
    }
    __device__ int entries() const { return PLACES * sizes.steps; }

    __device__ bool size_is_sound() const {
        if (size % LINE || size < STEPS || sizes.lines < 0 || sizes.lines > MOST_LINES) return false;
        if (fours > sizes.fours()) return false;
        int64_t far_at = sizes.far() ? start_ + sizes.far_from() / UNIT : 0;
        return sizes.bytes() == size && word(HEADER) == sizes.stated(fours) &&
               word(HEADER + 4) == uint32_t(far_at);
    }
    // Whether there is another word than 0.
    __device__ bool any(int from, int to) const {
        bool found = false;
        for (int at = from + 4 * lane_id(); at < to; at += 4 * LANES) found |= word(at) != 0;
        return found;
    }
};

// Words of step 0 in the lane's bank of step 1, and all words in that bank.
struct Banked {
    int above, words;
    __device__ explicit Banked(const Bytes& chunk)
        : above(__shfl_sync(ALL_LANES, chunk.words(0), int(chunk.bank()))), words(above + chunk.words(1)) {}
};

__device__ bool banks_are_sound(const Bytes& chunk) {
    uint32_t bank = chunk.bank();
    return __reduce_or_sync(ALL_LANES, bank < LANES ? 1u << bank : 0) == ~0u;
}

// Where entry number n of all stands, which come in this order: those of fours by rows.
__device__ int position_of(const Bytes& chunk, int n) {
    int step = n / PLACES, near = chunk.sizes.near();
    bool in_four = step < near && step >= near - FOUR * chunk.fours;
    return in_four ? PLACES * step + place_in_four(n % PLACES) : n;
}

// Whether it is the column of a step's first entry, or, where it has none, of the first of all.
__device__ bool has_unused_column(const Bytes& chunk, int step, uint32_t column) {
    Entry first = chunk.entry(0), own = chunk.entry(PLACES * step);
    return first.used() && column == (own.used() ? own : first).column;
}

// Each function looks at the lane's part of a chunk, of entries at each 32nd one. Those that are not in use come behind
// the others of their step; there are as many steps as these need.
__device__ bool entries_are_sound(const Bytes& chunk) {
    bool sound = true;
    int used = 0;
    for (int n = lane_id(); n < chunk.entries(); n += LANES) {
        Entry entry = chunk.entry(position_of(chunk, n));
        bool follows = n % PLACES == 0 || chunk.entry(position_of(chunk, n - 1)).used();
        if (entry.used()) used++, sound &= entry.sound() && follows;
        else sound &= !entry.value && has_unused_column(chunk, n / PLACES, entry.column);
    }
    used = __reduce_add_sync(ALL_LANES, used);
    return sound && chunk.sizes.steps == steps_for(used);
}

// Either all that there is room for, in which the rows of a step ascend, or none. A lane has an entry of each.
__device__ bool fours_are_sound(const Bytes& chunk) {
    const Sizes& sizes = chunk.sizes;
    if (!chunk.fours) return !chunk.any(sizes.fours_at(), sizes.near_end());
    if (chunk.fours != sizes.fours()) return false;
    bool sound = true;
    for (int four = 0; four < chunk.fours; four++) {
        int own = PLACES * (sizes.single() + FOUR * four) + lane_id();
        auto row = [&](int n) { return chunk.entry(position_of(chunk, n)).row; };
        if (own % PLACES) sound &= (row(own - 1) - 1 & 0xffff) <= (row(own) - 1 & 0xffff);
        uint32_t mine = chunk.entry(own).row;
        sound &= !(mine & chunk.entry(own ^ 2).row);
        for (int g = 0; g < WORDS_OF_FOUR; g++) {
            uint32_t word = __reduce_or_sync(ALL_LANES, metadata_of(lane_id(), mine, g));
            sound &= word == chunk.word(sizes.fours_at() + FOUR_BYTES * four + 4 * g);
        }
    }
    return sound;
}

// Halves of words that the lane's groups have, one after the other: bit 0 the first, bit 1 the second one.
class HalvesInTurn {
    uint32_t step0_, step1_;

  public:
    __device__ explicit HalvesInTurn(const Bytes& chunk)
        : step0_(chunk.halves(0)), step1_(chunk.halves(1)) {}
    __device__ uint32_t of_group(int order) const {
        uint32_t bits = (order < GROUPS_OF_STEP ? step0_ : step1_) >> first_half_shift(order);
        return bits & 1 | bits >> 7 & 2;
    }
};

// A second half belongs to a word that its group has begun, or the one before of those that have any.
__device__ bool halves_are_sound(const Bytes& chunk) {
    HalvesInTurn halves(chunk);
    bool sound = true;
    uint32_t before = 0;
    for (int order = 0; order < GROUPS; order++) {
        uint32_t has = halves.of_group(order);
        if (order == GROUPS_OF_STEP) before = 0;
        sound &= has != 2 || before == 1;
        if (has) before = has;
    }
    return sound;
}

// Of one group, and the word of which it has some halves, or none.
__device__ int group_problem(const Bytes& chunk, int order, uint32_t has, uint32_t word, int64_t rows,
                             int64_t cols) {
    uint32_t nibble = chunk.nibble(order), first = nibble & 3, second = nibble >> 2;
    if (!has) return nibble == ABSENT ? NONE : INDEX;
    if (has != 3) first = second = has == 1 ? first : second;
    if (nibble != nibble_of(first, second, has) || (has == 3 && first >= second)) return INDEX;
    bool outside = row_of(order) >= rows || 4 * group_of(order) + second >= cols;
    return outside ? OUTSIDE : has & ~nonzero_mask(word) ? ZERO : NONE;
}

// rows, cols: of A, from the chunk's first on.
__device__ int values_problem(const Bytes& chunk, int64_t rows, int64_t cols) {
    HalvesInTurn halves(chunk);
    int problem = NONE, line = -1, bank = lane_id(), above = Banked(chunk).above;
    for (int order = 0; order < GROUPS; order++) {
        if (order == GROUPS_OF_STEP) bank = int(chunk.bank()), line = above - 1;
        uint32_t has = halves.of_group(order);
        line += has & 1;
        uint32_t word = has ? chunk.line(line, bank) : 0;
        problem = min(problem, group_problem(chunk, order, has, word, rows, cols));
    }
    for (int i = lane_id(); i < chunk.entries(); i += LANES) {
        Entry entry = chunk.entry(i);
        bool outside = __popc(entry.row - 1) >= rows || entry.column >= cols;
        if (entry.used() && outside) problem = min(problem, OUTSIDE);
    }
    return problem;
}

// Non-zeros of the lane's bank.
__device__ int nonzeros_of_bank(const Bytes& chunk) {
    int found = 0;
    for (int i = 0; i < chunk.sizes.lines; i++) found += __popc(nonzero_mask(chunk.line(i, lane_id())));
    return found;
}

// In lines, which have as many non-zeros as groups have halves of words, or behind near or far steps.
__device__ bool any_garbage(const Bytes& chunk) {
    const Sizes& sizes = chunk.sizes;
    int unused = nonzeros_of_bank(chunk) - __popc(chunk.halves(0)) - __popc(chunk.halves(1));
    return __reduce_add_sync(ALL_LANES, unused) != 0 ||
           chunk.any(sizes.near_end(), sizes.lines_at()) ||
           chunk.any(sizes.far_from() + STEP * sizes.far(), chunk.size);
}

__global__ void __launch_bounds__(LANES)
    check(const __grid_constant__ Grid A, const uint8_t* data, const int* chunk_start,
          long long* found) {
    Bytes chunk(data, chunk_start);
    Place place(A, blockIdx.x);
    int problem = chunk.size_is_sound() ? NONE : SIZE;
    if (problem == NONE && !banks_are_sound(chunk)) problem = BANK;
    if (problem == NONE && __any_sync(ALL_LANES, !halves_are_sound(chunk))) problem = HALF;
    if (problem == NONE && __any_sync(ALL_LANES, Banked(chunk).words > chunk.sizes.lines))
        problem = WORDS;
    if (problem == NONE) {
        bool sound = __all_sync(ALL_LANES, entries_are_sound(chunk));
        problem = sound && fours_are_sound(chunk) ? NONE : ENTRY;
        problem = min(problem, values_problem(chunk, A.M - place.row, A.K - place.column));
        if (any_garbage(chunk)) problem = min(problem, GARBAGE);
    }
    problem = __reduce_min_sync(ALL_LANES, problem) % NONE;
    if (lane_id() == 0) report(found, blockIdx.x, problem);
}

__global__ void __launch_bounds__(LANES)
    count(const uint8_t* data, const int* chunk_start, int* nnz) {
    Bytes chunk(data, chunk_start);
    int found = nonzeros_of_bank(chunk);
    for (int i = lane_id(); i < chunk.entries(); i += LANES) found += chunk.entry(i).used();
    found = __reduce_add_sync(ALL_LANES, found);
    if (lane_id() == 0) st_global(nnz + blockIdx.x, found);
}

}  // namespace
}  // namespace lscd

using namespace lscd;
using namespace lscd::lane_24;

// found: the first chunk that has a problem. The offsets are sound.
LSCD_EXPORT int lscd_lane_24_strips_check(const uint8_t* data, const int* chunk_start, int64_t M,
                                          int64_t K, long long* found, cudaStream_t stream) {
    Grid A(M, K);
    return launch(check, A.chunks(), LANES, stream, A, data, chunk_start, found);
}

// nnz [chunks].
LSCD_EXPORT int lscd_lane_24_strips_count(const uint8_t* data, const int* chunk_start, int64_t chunks,
                                          int* nnz, cudaStream_t stream) {
    return launch(count, chunks, LANES, stream, data, chunk_start, nnz);
}
