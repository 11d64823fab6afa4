"""The figure of products without a pause, and its table, hold the rows that they are given."""

import itertools

import pandas as pd
import pytest

from lab_utils import plots
from lab_utils.results import COLUMNS


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    same = {"date": "2026-01-01T00:00:00+00:00", "commit": "1", "device": "gpu-a", "driver": "",
            "cuda": "", "backend": "cuda", "M": 1024, "K": 512, "pattern": "random",
            "dtype": "fp16", "split_k": 1, "encoded_bytes": 1, "relative_error": 0.0,
            "watts": 700.0, "sm_mhz": 1500.0, "dense_rested_us": 20.0, "dense_us": 21.0,
            "dense_millijoules": 14.0}  # fmt: skip
    kernels = {"cublas_linear": 20.0, "zero_row_24_mma": 10.0, "tiled_csl_mma": 16.0}
    found = [
        same | {"kernel": kernel, "N": N, "sparsity": sparsity, "rested_us": us,
                "time_us": 1.25 * us, "millijoules": 0.7 * us}
        for (kernel, us), N, sparsity in itertools.product(kernels.items(), (8, 64), (0.5, 0.9))
    ]  # fmt: skip
    return pd.DataFrame(found)[list(COLUMNS["energy"])]


def test_each_kernel_has_both_times_in_each_panel(rows) -> None:
    fig = plots.rested_and_warm(rows)
    assert len(list(fig.select_xaxes())) == 2
    assert [trace.name for trace in fig.data if trace.showlegend] == ["Tiled-CSL", "zero-row 2:4"]
    mine = [trace for trace in fig.data if trace.name == "zero-row 2:4"]
    between, rested, warm = mine[:3]
    assert list(rested.y) == [2.0, 2.0] and list(warm.y) == pytest.approx([1.68, 1.68])
    assert list(between.y[:3]) == [2.0, pytest.approx(1.68), None] and list(warm.x) == [0.5, 0.9]
    assert len(mine) == 6


def test_the_table_has_a_line_for_each_row(rows) -> None:
    table = plots.energies(rows)
    assert len(table) == len(rows) and table.index.names == ["sparsity", "N", "kernel"]
    line = table.loc[(0.5, 8, "zero_row_24_mma")]
    assert line["µs, rested"] == 10 and line["mJ"] == 7 and line["speed-up"] == pytest.approx(1.68)


def test_rows_without_a_sparse_kernel_are_refused(rows) -> None:
    with pytest.raises(ValueError, match="rows hold no sparse kernel"):
        plots.rested_and_warm(rows[rows.kernel.eq("cublas_linear")])
