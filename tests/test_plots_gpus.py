"""The figure of the same kernels on several GPUs."""

import numpy as np
import pandas as pd
import pytest
from gpu_rows import gpu_rows

from lab_utils import plots

SHAPES = [(1024, 1024), (2048, 512)]
ALONE = "zero_row_24_packed_mma"  # that the second GPU alone has


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Of our kernels on two GPUs; the second is slower, gains twice as much, has fewer columns."""
    ours = gpu_rows(SHAPES, Ns=(1, 8, 64), sparsities=(0.5, 0.8))
    ours = ours[ours.kernel.str.contains("_24_")]
    one, other = ours[ours.kernel.ne(ALONE)], ours[ours.N.lt(64)]
    other = other.assign(
        device="h100",
        date="2026-11-25T10:00:00+00:00",
        speedup=2 * other.speedup,
        time_us=3 * other.time_us.mask(other.kernel.eq(ALONE), 0),
    )
    return pd.concat([one, other])


def test_lines_are_means_of_the_fastest_of_the_kernels_that_all_have(rows: pd.DataFrame) -> None:
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
    assert said == "h200, 2026-11-21; h100, 2026-11-25; 2 shapes, fp16; the fastest of each case"


def test_what_cannot_be_compared_is_refused(rows: pd.DataFrame) -> None:
    h200 = rows[rows.device.eq("h200")]
    apart = pd.concat([h200[h200.N.eq(64)], rows[rows.device.eq("h100")]])
    mixed = pd.concat([rows, h200.assign(dtype="bf16")])
    for given, message in (
        (apart, "no product that was measured on all of h200, h100"),
        (h200, r"devices \['h200'\]; allowed: two or more"),
        (rows[:0], r"devices \[\]; allowed: two or more"),
        (mixed, "rows hold dtype = bf16, fp16; allowed: one value"),
    ):
        with pytest.raises(ValueError, match=message):
            plots.speedups_by_gpu(given)
