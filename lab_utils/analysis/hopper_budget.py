"""What zero-row 2:4 asks of an SM for 64 weights, and how fast a product can be at most.

`traces` are what the emulator counted in kernels/spmm/hopper_mma.cu. Loading a slice of B and
writing sums are left out: they are done once for thousands of chunks.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lab_utils.analysis.anatomy import WAVEFRONTS
from lab_utils.analysis.compression import dense_bytes, format_bytes
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.analysis.zero_row_24 import Streams
from lab_utils.analysis.zero_row_24_expected import chunks
from lab_utils.catalog import Device

FORMAT = "zero_row_24"
UNIT = 64  # weights that everything is counted for
# Clocks of an SM for one warp-wide instruction of its tensor core, measured on an H200.
TENSOR_CLOCKS = {"bmma": 1.17, "mma_sp": 2.26}
# Device functions of a chunk, by what goes through shared memory there.
PARTS = {
    "gather": "values",
    "header": "metadata, starts",
    "read_metadata": "metadata, starts",
    "read_piece": "metadata, starts",
    "load_rows": "rows of B",
    "smem2tc": "rows of B",
    "smem2tc_listed": "rows of B for extra chunks",
    "ld_sparse": "copies in",
}


def wavefronts(trace: KernelTrace, weights: int) -> dict[str, float]:
    """Shared-memory wavefronts for 64 weights, by `PARTS`, of a product with so many weights."""
    sums = dict.fromkeys(PARTS.values(), 0.0)
    for place, counts in trace.lines.items():
        if place.function in PARTS:
            sums[PARTS[place.function]] += counts.wavefronts * UNIT / weights
    return sums


def clocks_needed(trace: KernelTrace, weights: int) -> dict[str, float]:
    """Clocks of an SM for 64 weights that shared memory and tensor core need."""
    tensor = sum(trace.total(op).requests * clocks for op, clocks in TENSOR_CLOCKS.items())
    return {
        "shared wavefronts": sum(wavefronts(trace, weights).values()) / WAVEFRONTS,
        "tensor core": tensor * UNIT / weights,
    }


def clocks_of_bytes(device: Device, nbytes: float) -> float:
    """Clocks in which memory brings so many bytes to each SM."""
    return nbytes * device.sms * device.tensor_clock_mhz / (device.bandwidth_gb_s * 1e3)


def product_us(device: Device, M: int, K: int, clocks: float) -> float:
    """Time of a product that takes `clocks` of each SM for 64 weights, in µs."""
    return clocks * M * K / UNIT / (device.sms * device.tensor_clock_mhz)


def bytes_table(M: int, K: int, sparsities: Sequence[float]) -> pd.DataFrame:
    """Bytes for 64 weights by the formulas: a line for each sparsity, a column for each encoding.

    Streams of zero-row 2:4 are in plain order.
    """
    s, unit = np.asarray(sparsities, dtype=float), UNIT / (M * K)
    columns = {
        "dense": dense_bytes(M, K, s),
        "Tiled-CSL": format_bytes("tiled_csl", M, K, s),
        "TCA-BME": format_bytes("tca_bme", M, K, s),
        "zero-row 2:4, pairs": format_bytes(FORMAT, M, K, s, streams="pairs"),
        "zero-row 2:4, packed": format_bytes(FORMAT, M, K, s, streams="packed"),
        "zero-row 2:4, nested": format_bytes(FORMAT, M, K, s, streams="nested"),
        "zero-row 2:4, sixes": format_bytes(FORMAT, M, K, s, streams="sixes"),
        "zero-row strips": format_bytes("zero_row_24_strips", M, K, s),
    }
    return pd.DataFrame(columns, index=pd.Index(s, name="sparsity")) * unit


def further_share(M: int, K: int, sparsities: Sequence[float]) -> pd.Series:
    """Chunks of level 1 and extra ones for each regular one, by the formula, by sparsity."""
    s = np.asarray(sparsities, dtype=float)
    found = chunks(M, K, 1 - s, Streams.PACKED)
    share = found.count / found.regular - 1
    return pd.Series(share, index=pd.Index(s, name="sparsity"), name="further chunks")


def bounds(
    needs: Mapping[float, Mapping[str, float]],
    memory: Mapping[float, float],
    device: Device,
    M: int,
    K: int,
    dense_us: float,
) -> pd.DataFrame:
    """Speed-ups over a dense product of `dense_us` that bytes, and the busiest unit, allow.

    `needs` and `memory`: clocks for 64 weights by sparsity. Columns: "bytes", "busiest unit", and
    "unit", which that is.
    """
    found = {}
    for sparsity, mine in needs.items():
        clocks = {"bytes": memory[sparsity], **mine}
        unit = max(clocks, key=clocks.__getitem__)
        speedup = {name: dense_us / product_us(device, M, K, c) for name, c in clocks.items()}
        found[sparsity] = {"bytes": speedup["bytes"], "busiest unit": speedup[unit], "unit": unit}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("sparsity")
