"""One function per figure; `use()` sets template and renderer once per session."""

from lab_utils.plots.benchmark import fractions_of_byte_limit, speedups
from lab_utils.plots.cases import speedup_heatmap, time_bars
from lab_utils.plots.compression import (
    break_evens,
    bytes_per_weight,
    compression_ratios,
    encoded_against_formula,
    tile_overheads,
)
from lab_utils.plots.limits import byte_limit_times, utilisation_bars
from lab_utils.plots.roofline import device_roofs, formats_under_roof, skinny_roofline
from lab_utils.plots.style import use

__all__ = [
    "break_evens",
    "byte_limit_times",
    "bytes_per_weight",
    "compression_ratios",
    "device_roofs",
    "encoded_against_formula",
    "formats_under_roof",
    "fractions_of_byte_limit",
    "skinny_roofline",
    "speedup_heatmap",
    "speedups",
    "tile_overheads",
    "time_bars",
    "use",
    "utilisation_bars",
]
