"""One function per figure; `use()` sets template and renderer once per session."""

from lab_utils.plots.agreement import count_agreement
from lab_utils.plots.anatomy import stage_costs, stage_times, unit_use
from lab_utils.plots.bank_conflicts import (
    bank_formulas,
    bank_maps,
    conflicts_by_sparsity,
    tile_in_banks,
)
from lab_utils.plots.benchmark import fractions_of_byte_limit, speedups
from lab_utils.plots.bitmap_decoding import (
    bitmap_nesting,
    decode_budget,
    fragment_layout,
    lane_decode,
)
from lab_utils.plots.buckets import bucket_animation, bucket_step
from lab_utils.plots.cases import speedup_heatmap, time_bars
from lab_utils.plots.choosing import fastest_formats
from lab_utils.plots.compression import (
    break_evens,
    bytes_per_weight,
    compression_ratios,
    encoded_against_formula,
    tile_overheads,
)
from lab_utils.plots.eager import eager_speedups
from lab_utils.plots.end_to_end import generation_throughput, time_breakdown
from lab_utils.plots.energy import energies, rested_and_warm
from lab_utils.plots.gpus import speedups_by_gpu
from lab_utils.plots.hopper import (
    encoded_bytes,
    gather_wavefronts,
    speedup_bounds,
    trial_and_peers,
)
from lab_utils.plots.ladder import ladder_times, ladder_wavefronts
from lab_utils.plots.libraries import speedups_by_batch, speedups_by_sparsity
from lab_utils.plots.limits import byte_limit_times, utilisation_bars
from lab_utils.plots.many_columns import ways_by_columns
from lab_utils.plots.memory import largest_batches, memory_terms, peak_memory
from lab_utils.plots.peers import speedup_table
from lab_utils.plots.pipeline import pipeline_timeline, pipeline_turns, step_clocks_by_lead
from lab_utils.plots.renderer import use
from lab_utils.plots.roofline import device_roofs, formats_under_roof, skinny_roofline
from lab_utils.plots.throughputs import average_speedups, throughputs
from lab_utils.plots.token_energy import token_energy
from lab_utils.plots.zero_row_24 import bmma_addresses, zero_row_groups, zero_row_lane

__all__ = [
    "average_speedups",
    "bank_formulas",
    "bank_maps",
    "bitmap_nesting",
    "bmma_addresses",
    "break_evens",
    "bucket_animation",
    "bucket_step",
    "byte_limit_times",
    "bytes_per_weight",
    "compression_ratios",
    "conflicts_by_sparsity",
    "count_agreement",
    "decode_budget",
    "device_roofs",
    "eager_speedups",
    "encoded_against_formula",
    "encoded_bytes",
    "energies",
    "fastest_formats",
    "formats_under_roof",
    "fractions_of_byte_limit",
    "fragment_layout",
    "gather_wavefronts",
    "generation_throughput",
    "ladder_times",
    "ladder_wavefronts",
    "lane_decode",
    "largest_batches",
    "memory_terms",
    "peak_memory",
    "pipeline_timeline",
    "pipeline_turns",
    "rested_and_warm",
    "skinny_roofline",
    "speedup_bounds",
    "speedup_heatmap",
    "speedup_table",
    "speedups",
    "speedups_by_batch",
    "speedups_by_gpu",
    "speedups_by_sparsity",
    "stage_costs",
    "stage_times",
    "step_clocks_by_lead",
    "throughputs",
    "tile_in_banks",
    "tile_overheads",
    "time_bars",
    "time_breakdown",
    "token_energy",
    "trial_and_peers",
    "unit_use",
    "use",
    "utilisation_bars",
    "ways_by_columns",
    "zero_row_groups",
    "zero_row_lane",
]
