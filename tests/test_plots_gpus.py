"""The figure of the same kernels on several GPUs."""

import numpy as np
import pandas as pd
import pytest
from gpu_rows import gpu_rows

from lab_utils import plots

SHAPES = [(1024, 1024), (2048, 512)]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Of our kernels on two GPUs, the second of which gains twice as much and has fewer columns."""
    one = gpu_rows(SHAPES, Ns=(1, 8, 64), sparsities=(0.5, 0.8))
    one = one[one.kernel.str.contains("_24_")]
    other = one[one.N < 64].assign(device="h100", speedup=lambda rows: 2 * rows.speedup)
    return pd.concat([one, other.assign(date="2026-11-25T10:00:00+00:00")])


def test_lines_are_means_of_the_fastest_kernels_of_what_all_have(rows: pd.DataFrame) -> None:
    fig = plots.speedups_by_gpu(rows)
    lines = [trace for trace in fig.data if trace.mode == "lines+markers"]
    assert [line.name for line in lines] == ["h200", "h100"] * 2  # panels of two sparsities
    assert all(list(line.x) == [1, 8] for line in lines)
    mine = rows[rows.device.eq("h200") & rows.sparsity.eq(0.5) & rows.N.eq(8)]
    fastest = mine.groupby(["M", "K"]).speedup.max()
    assert lines[0].y[1] == pytest.approx(np.exp(np.log(fastest).mean()))
    assert np.allclose(lines[1].y, 2 * np.asarray(lines[0].y))


def test_it_says_of_which_devices_and_when(rows: pd.DataFrame) -> None:
    said = plots.speedups_by_gpu(rows).layout.title.subtitle.text
    assert said == "h200, 2026-11-21; h100, 2026-11-25; 2 shapes, fp16"


def test_devices_without_a_common_case_are_refused(rows: pd.DataFrame) -> None:
    apart = rows[rows.device.eq("h200") & rows.N.eq(64) | rows.device.eq("h100")]
    with pytest.raises(ValueError, match="no case that was measured on all of h200, h100"):
        plots.speedups_by_gpu(apart)
