// Where the parts of a chunk of lane_24_strips are, in bytes (kernels/cpu/encode/lane_24_strips.h).
#pragma once

namespace lscd {

struct LaneChunk {
    static constexpr int PRESENT = 512, HEADER = 640, FAR_AT = 644;
    static constexpr int ENTRIES = 656, STEP_BYTES = 48, NEAR_STEPS = 7;
    static constexpr int LINE_SHIFT = 7;
};

}  // namespace lscd
