"""Measuring products, side by side with dense ones, and the rows that a measurement becomes.

In one run of a case every contender is first checked against fp64, then all are timed in turns,
so that whatever else happens on the machine happens to all of them. No launch finds its weights
in a cache: each takes the next copy of them, and one turn of all ends with a read of memory.

`cases` says what is measured, `operands` makes weights and activations, `cpu` and `cuda` know the
contenders of a device and how to time them (`graphs`), `rows` is the arithmetic, `measuring` joins
them, `tables` writes them for a terminal. `encoders` measures how fast weights are encoded,
`ladder` the teaching kernels, `eager` layers as Python calls them. `energy` runs each contender
alone, without a pause, and reads the GPU's meters. `turns` times one GPU kernel launched in several
ways, which `anatomy` and `shares` name. `counters` and `counts` ask the profiler: `nsight` runs it,
on `profiled` and `counted`.
"""

from lab_utils.analysis.checked import check_any
from lab_utils.bench.cases import DTYPES, Case, grid, shapes
from lab_utils.bench.encoders import measure_encoders
from lab_utils.bench.measuring import default_device, default_formats, measure, sweep
from lab_utils.bench.operands import Weights

__all__ = [
    "DTYPES",
    "Case",
    "Weights",
    "check_any",
    "default_device",
    "default_formats",
    "grid",
    "measure",
    "measure_encoders",
    "shapes",
    "sweep",
]
