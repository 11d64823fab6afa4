"""What rows of the tables `stages` and `counters` say about a kernel.

Stages are those of kernels/common/stages.cuh; metrics are Nsight Compute's, by its own names.
"""

from collections.abc import Sequence

import pandas as pd

from lab_utils import results
from lab_utils.analysis.compression import format_bytes
from lab_utils.catalog import Device

CASE = ["device", "kernel", *results.CASE]

# The stages of each format's kernel, in the order of its drawing.
STAGES = {
    "tiled_csl": ("gmem2reg", "ld_dense", "rst_smem", "extract", "smem2tc"),
    "tca_bme": ("ld_sparse", "ld_dense", "decode", "smem2tc"),
    "zero_row_24": ("extract", "smem2tc", "decode"),  # the last: all that follows the copies
    "zero_row_24_strips": ("extract", "smem2tc", "decode"),
    "lane_24_strips": ("extract", "smem2tc", "decode"),
    "bitmap_strips": ("extract", "smem2tc", "decode"),
    "coded_strips": ("extract", "smem2tc", "decode"),
}
NOTHING = "nothing"  # the column `left_out` of a whole kernel

TIME = "gpu__time_duration.sum"
# Units of a GPU, and the metric that says how busy each was, in % of what it could do.
UNITS = {
    "HBM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1, shared memory": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "issue slots": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    "tensor core": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
}
USEFUL = "tensor core, useful"  # of C's M x N x K products alone
FACTS = {
    "time (µs)": TIME,
    "read from HBM (MB)": "dram__bytes_read.sum",
    "instructions per 64 weights": "smsp__inst_executed.sum",
    "shared wavefronts per 64 weights": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "bank conflicts per 64 weights": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "warps, of those that fit (%)": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers per thread": "launch__registers_per_thread",
}
PER_TILE = "per 64 weights"  # an 8x8 tile; zeros count as weights

# What each SM does in a clock, on all devices of the catalog: four schedulers issue an instruction
# each, and shared memory serves one wavefront of 128 bytes.
ISSUED, WAVEFRONTS = 4, 1

STALL_PREFIX, STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
STALLS = {  # what a warp waits for, in the profiler's words and in ours
    "long_scoreboard": "global memory, or its turn in a load of L1",
    "short_scoreboard": "shared memory, shuffles, popcounts",
    "mio_throttle": "room in the queue to shared memory",
    "lg_throttle": "room in the queue to global memory",
    "barrier": "other warps of the block",
    "wait": "a fixed latency",
    "math_pipe_throttle": "a busy pipe, such as the tensor core's",
    "not_selected": "another warp that was issued",
    "selected": "nothing: it was issued",
    "no_instruction": "its next instructions",
    "dispatch_stall": "the dispatcher",
    "branch_resolving": "a branch",
    "gmma": "a warpgroup's matrix product",
    "drain": "stores, before it ends",
}


def stage_costs(stages: pd.DataFrame) -> pd.DataFrame:
    """Rows of left-out stages with `whole_us`, the whole kernel's time, and two costs.

    `cost_us` is what the kernel saves without the stage, `cost` that as a fraction of `whole_us`.
    Raises ValueError where a whole kernel's row is missing.
    """
    left_out = stages[stages.left_out != NOTHING]
    whole = stages[stages.left_out == NOTHING].set_index([*CASE, "date"]).time_us
    costs = left_out.join(whole.rename("whole_us"), on=[*CASE, "date"])
    if costs.whole_us.isna().any():
        raise ValueError(f"rows lack a whole kernel (left_out={NOTHING!r}) of the same run")
    saved = costs.whole_us - costs.time_us
    return costs.assign(cost_us=saved, cost=saved / costs.whole_us)


def stage_times(stages: pd.DataFrame) -> pd.DataFrame:
    """`time_us`: a line for each kernel and case, a column for each stage that was left out."""
    times = stages.pivot_table("time_us", CASE, "left_out", sort=False)
    return times[[NOTHING, *(name for name in times if name != NOTHING)]]


def unit_use(counters: pd.DataFrame, peak_tflops: float) -> pd.DataFrame:
    """How busy each unit was, in %: a row for each kernel, case and unit, in the column `percent`.

    To the metrics of `UNITS` it adds `USEFUL`: 2MNK operations per time and `peak_tflops`, which
    leaves out what a tensor core multiplies beyond N columns (as Flash-LLM's figure 10 does).
    """
    wide = by_metric(counters, [*CASE, "date"])
    units = wide[list(UNITS.values())].set_axis(list(UNITS), axis="columns")
    M, K, N = (wide.index.get_level_values(name).astype(float) for name in ("M", "K", "N"))
    tflops = 2 * M * K * N / wide[TIME] / 1e3
    units[USEFUL] = 100 * tflops / peak_tflops
    return units.rename_axis(columns="unit").stack().rename("percent").reset_index()


def facts(counters: pd.DataFrame) -> pd.DataFrame:
    """A line for each kernel and case, a column for each of `FACTS`."""
    wide = by_metric(counters)[list(FACTS.values())].set_axis(list(FACTS), axis="columns")
    M, K = (wide.index.get_level_values(name).astype(float) for name in ("M", "K"))
    for name in wide:
        if name.endswith(PER_TILE):
            wide[name] /= M * K / 64
    wide["time (µs)"] /= 1e3
    wide["read from HBM (MB)"] /= 1e6
    return wide


def budget(device: Device, format: str, M: int, K: int, sparsity: float) -> dict[str, float]:
    """What each SM can do while memory brings 64 weights of A [M, K] in that format.

    A kernel that needs more per 64 weights than this is not bound by memory.
    """
    nbytes = 64 * float(format_bytes(format, M, K, sparsity)) / (M * K)
    bytes_per_clock = device.bandwidth_gb_s * 1e3 / (device.sms * device.tensor_clock_mhz)
    clocks = nbytes / bytes_per_clock
    return {
        "bytes": nbytes,
        "clocks": clocks,
        "instructions": ISSUED * clocks,
        "shared wavefronts": WAVEFRONTS * clocks,
    }


def stalls(counters: pd.DataFrame) -> pd.DataFrame:
    """What warps spend their time on: shares that add up to 1, the largest reason first.

    A line for each reason in the profiler's words, a column for each kernel and case.
    """
    metrics = counters.metric
    rows = counters[metrics.str.startswith(STALL_PREFIX) & metrics.str.endswith(STALL_SUFFIX)]
    wide = by_metric(rows).T
    wide.index = wide.index.str.removeprefix(STALL_PREFIX).str.removesuffix(STALL_SUFFIX)
    shares = wide / wide.sum()
    return shares.loc[shares.mean(axis="columns").sort_values(ascending=False).index]


def by_metric(counters: pd.DataFrame, lines: Sequence[str] = CASE) -> pd.DataFrame:
    """Values of counters: a line for each kernel and case, a column for each metric."""
    return counters.pivot_table("value", lines, "metric", sort=False)
