"""Figures of notebook 31 hold the rows that they are given."""

import itertools

import pandas as pd
import pytest

from lab_utils import plots
from lab_utils.analysis import anatomy as a

ORIGIN = {"date": "2026-01-01T00:00:00+00:00", "commit": "x", "device": "gpu-a", "driver": "",
          "cuda": "", "M": 1024, "K": 512, "pattern": "random", "dtype": "fp16",
          "split_k": 1}  # fmt: skip
CASES = [(8, 0.5), (8, 0.8), (16, 0.5), (16, 0.8)]


@pytest.fixture(scope="module")
def stages() -> pd.DataFrame:
    rows = []
    for (N, sparsity), format in itertools.product(CASES, a.STAGES):
        for i, left_out in enumerate((a.NOTHING, *a.STAGES[format])):
            us = 100.0 - i
            what = {"kernel": f"{format}_mma", "N": N, "sparsity": sparsity, "left_out": left_out}
            rows.append(ORIGIN | what | {"time_us": us, "p10_us": us - 1, "p90_us": us + 2})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def use() -> pd.DataFrame:
    kernels = [("cublas_mm", 0.0), ("tiled_csl_mma", 0.8), ("tca_bme_mma", 0.8)]
    rows = [
        ORIGIN | {"kernel": kernel, "sparsity": sparsity, "N": N, "unit": unit, "percent": 10.0 + N}
        for (kernel, sparsity), N, unit in itertools.product(kernels, (8, 16, 32), a.UNITS)
    ]
    return pd.DataFrame(rows)


def test_costs_have_a_panel_per_kernel_and_sparsity_and_one_legend(stages) -> None:
    fig = plots.stage_costs(a.stage_costs(stages))
    assert len(list(fig.select_xaxes())) == 2 * len(a.STAGES)
    assert len(fig.data) == 2 * sum(map(len, a.STAGES.values()))
    legend = [trace.name for trace in fig.data if trace.showlegend]
    assert sorted(legend) == sorted({stage for stages in a.STAGES.values() for stage in stages})
    (first, *_) = fig.data
    assert list(first.x) == [8, 16] and list(first.y) == pytest.approx([0.01, 0.01])


def test_times_are_of_one_case(stages) -> None:
    one = stages[stages.N.eq(8) & stages.sparsity.eq(0.5)]
    fig = plots.stage_times(one)
    (bars,) = fig.data
    assert list(bars.x) == one.time_us.tolist()[::-1]
    assert bars.y[-1] == "Tiled-CSL whole" and "TCA-BME without decode" in bars.y
    with pytest.raises(ValueError, match=r"rows hold 4 cases \(.*\); allowed: one"):
        plots.stage_times(stages)
    with pytest.raises(ValueError, match=r"rows hold 2 cases \(.*pattern.*\); allowed: one"):
        plots.stage_times(pd.concat([one, one.assign(pattern="magnitude")]))


def test_unit_use_marks_published_values_on_their_bars(use) -> None:
    values = {"kernel": "tiled_csl_mma", "N": 16, "unit": "HBM", "percent": 24.4}
    fig = plots.unit_use(use, pd.DataFrame([values]))
    bars = [trace for trace in fig.data if trace.type == "bar"]
    assert len(bars) == 9 and {bar.name for bar in bars if bar.showlegend} == {
        "cuBLAS", "Tiled-CSL, 80% sparsity", "TCA-BME, 80% sparsity"}  # fmt: skip
    points = [trace for trace in fig.data if trace.type == "scatter" and list(trace.y) == [24.4]]
    (point,) = points
    (bar,) = [b for b in bars if b.xaxis == point.xaxis and b.name.startswith("Tiled-CSL")]
    assert point.x[0] == pytest.approx(bar.x[0]) and bar.y[0] == 26.0
    assert bar.text[0] == "" and all(bar.text[1:])  # the circle lies where the number would be
    far = plots.unit_use(use, pd.DataFrame([values | {"percent": 80}]))
    assert all(text for trace in far.data if trace.type == "bar" for text in trace.text)
    assert sum(bool(trace.showlegend) for trace in fig.data if trace.type == "scatter") == 1


def test_unit_use_of_a_kernel_profiled_at_one_N(use) -> None:
    """A panel is without its bars, and the legend names it once, wherever it comes first."""
    fewer = use[~(use.kernel.eq("tca_bme_mma") & use.N.lt(use.N.max()))]
    bars = [trace for trace in plots.unit_use(fewer).data if trace.type == "bar"]
    mine = [bar for bar in bars if bar.name.startswith("TCA-BME")]
    assert len(mine) == 1 and mine[0].showlegend and len(bars) == 7


def test_unit_use_without_published_values(use) -> None:
    assert all(trace.type == "bar" for trace in plots.unit_use(use).data)
