// The configuration that each SpMM kernel takes for a problem: N decides the width of its blocks.
#pragma once
#include "../common/config.cuh"

namespace lscd {

Config tiled_csl_config(const Problem& p);  // A: words, tile_offsets; tile_values: mean words
Config tca_bme_config(const Problem& p);    // A: bitmap, values, gt_offset, strip_offset

}  // namespace lscd
