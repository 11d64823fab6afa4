"""The figure of layers called by Python."""

import pandas as pd
import pytest

from lab_utils import plots
from lab_utils.results import COLUMNS

SHAPES = [(1024, 2048), (512, 512)]
TIMES = {"dense": (20.0, 10.0), "tca_bme": (40.0, 4.0), "zero_row_24": (25.0, 5.0)}  # eager, graph


@pytest.fixture
def rows() -> pd.DataFrame:
    common = dict.fromkeys(COLUMNS["eager"], 1) | {
        "date": "2026-11-29T10:00:00+00:00", "device": "h200", "dtype": "fp16",
        "pattern": "random", "dense_us": 20.0, "dense_graph_us": 10.0,
    }  # fmt: skip
    return pd.DataFrame([
        common | {"M": M, "K": K, "N": N, "sparsity": sparsity, "format": format,
                  "time_us": time, "graph_us": graph}
        for M, K in SHAPES for N in (8, 64) for sparsity in (0.5, 0.8)
        for format, (time, graph) in TIMES.items()
    ])  # fmt: skip


def test_bars_are_the_fastest_layers_smaller_ones_first(rows: pd.DataFrame) -> None:
    fig = plots.eager_speedups(rows, 8)
    assert [bar.name for bar in fig.data] == ["in a CUDA graph", "by Python"] * 2
    in_graph, by_python = fig.data[:2]
    assert list(in_graph.x) == list(by_python.x) == ["512×512", "1024×2048"]
    assert list(in_graph.y) == [2.5, 2.5] and list(by_python.y) == [0.8, 0.8]
    assert [one[0] for one in by_python.customdata] == ["zero-row 2:4"] * 2
    said = "h200, 2026-11-29, fp16, N = 8; of each bar the fastest format"
    assert fig.layout.title.subtitle.text == said


def test_what_cannot_be_drawn_is_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"N=16: no row of a sparse layer; rows have \[8, 64\]"):
        plots.eager_speedups(rows, 16)
    with pytest.raises(ValueError, match="rows hold device = h100, h200; allowed: one value"):
        plots.eager_speedups(pd.concat([rows, rows.assign(device="h100")]), 8)
