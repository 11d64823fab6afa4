"""Figures and the table of notebook 23 hold the counts and rows that they are given."""

import pandas as pd
import pytest
import torch

from lab_utils import ladder, plots
from lab_utils.analysis.kernel_trace import KernelTrace
from lab_utils.ladder import RUNGS, counts
from lab_utils.patterns import random_sparse

ORIGIN = {"date": "2026-01-01T00:00:00+00:00", "commit": "x", "device": "gpu-a", "driver": "",
          "cuda": "", "M": 1024, "K": 512, "N": 16, "sparsity": 0.5, "pattern": "random",
          "dtype": "fp16", "split_k": 1, "encoded_bytes": 1, "relative_error": 0.0,
          "speedup": 1.0, "dense_us": 50.0}  # fmt: skip
WEIGHTS = 128 * 128


@pytest.fixture(scope="module")
def traces() -> dict[str, KernelTrace]:
    W, B = random_sparse(128, 128, 0.5), torch.ones(16, 128).half().T
    return {name: ladder.emulate(ladder.encode(name, W), B)[1] for name in RUNGS}


@pytest.fixture
def rows() -> pd.DataFrame:
    times = {"time_us": 100.0, "p10_us": 99.0, "p90_us": 102.0, "byte_limit_fraction": 0.4}
    return pd.DataFrame(
        ORIGIN | times | {"rung": name, "format": rung.format} for name, rung in RUNGS.items()
    )


def test_parts_add_up_to_all_wavefronts(traces) -> None:
    found = counts.wavefronts(traces, WEIGHTS)
    assert list(found.part.unique()) == [*counts.PARTS.values(), counts.CONFLICTS]
    for name, trace in traces.items():
        total = trace.total().wavefronts * counts.TILE / WEIGHTS
        assert found[found.rung.eq(name)].wavefronts.sum() == total
    parts = found.set_index(["rung", "part"]).wavefronts
    assert parts["tiled_csl_5_double_buffer", "clear the tile"] == 128 * 64 * 2 // 128
    assert parts["tca_bme_3_pipeline", "clear the tile"] == 0


def test_the_table_has_a_line_for_each_rung(traces, rows) -> None:
    table = counts.table(traces, WEIGHTS, rows.iloc[:3])
    assert list(table.index)[:2] == ["1. dense", "2. load sparse"] and len(table) == len(RUNGS)
    assert table["time (µs)"].notna().tolist() == [True] * 3 + [False] * 7
    assert table.loc["2. running count", "popcounts"] == 2 * 128  # 128 bitmaps of 8 x 8
    empty = counts.table(traces, WEIGHTS, rows.iloc[:0])
    assert empty["time (µs)"].isna().all()


def test_wavefronts_are_stacked_by_part(traces) -> None:
    found = counts.wavefronts(traces, WEIGHTS)
    fig = plots.ladder_wavefronts(found, "what")
    bars = [trace for trace in fig.data if trace.type == "bar"]
    assert sum(sum(bar.x) for bar in bars) == found.wavefronts.sum()
    legend = [bar.name for bar in bars if bar.showlegend]
    assert legend == [*counts.PARTS.values(), counts.CONFLICTS]
    assert list(bars[0].y) == [r.label for r in RUNGS.values() if r.ladder == "tiled_csl"]


def test_times_are_of_one_case(rows) -> None:
    fig = plots.ladder_times(rows)
    bars = [trace for trace in fig.data if trace.type == "bar"]
    assert [len(bar.x) for bar in bars] == [7, 3]
    limits = [trace for trace in fig.data if trace.name == "byte limit of its encoding"]
    assert list(limits[1].x) == [40.0] * 3
    assert "best dense library 50 µs" in [trace.name for trace in fig.data]
    slow = rows.assign(p90_us=rows.p90_us.mask(rows.rung.eq("tca_bme_1_two_popcounts"), 9000))
    few, many = (axis.range[1] for axis in plots.ladder_times(slow).select_xaxes())
    assert many == pytest.approx(1.7 * 9000) and few < 1000
    for other in (rows.assign(N=8), rows.assign(pattern="magnitude")):
        with pytest.raises(ValueError, match=r"rows hold 2 cases \(.*pattern.*\); allowed: one"):
            plots.ladder_times(pd.concat([rows, other]))
