"""Figures of measured rows: what they show is what the rows say."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from lab_utils import plots
from lab_utils.plots.rows import of_sparse_formats, with_format


def trace(figure: go.Figure, name: str) -> go.Scatter:
    return next(trace for trace in figure.data if trace.name == name)


def test_speedup_lines_are_geometric_means(rows: pd.DataFrame) -> None:
    figure = plots.speedups(rows)
    assert [title.text for title in figure.layout.annotations[:2]] == ["N = 1", "N = 8"]
    line = trace(figure, "CSR")  # of the first panel
    chosen = with_format(rows).query("format == 'csr' and N == 1")
    expected = np.exp(np.log(chosen.speedup).groupby(chosen.sparsity).mean())
    assert list(line.x) == [0.5, 0.8]
    assert np.allclose(line.y, expected)
    assert rows.device.iloc[0] in figure.layout.title.subtitle.text
    assert rows.date.iloc[0][:10] in figure.layout.title.subtitle.text


@pytest.mark.parametrize("draw", [plots.speedups, plots.fractions_of_byte_limit])
def test_line_figures_cope_with_single_values(draw, rows: pd.DataFrame) -> None:
    one_sparsity = draw(rows[rows.sparsity == 0.5])
    assert list(trace(one_sparsity, "TCA-BME").x) == [1, 8]
    assert one_sparsity.layout.xaxis.title.text == "N"
    one_N = draw(rows[rows.N == 8])
    assert list(trace(one_N, "TCA-BME").x) == [0.5, 0.8]
    point = draw(rows[(rows.N == 8) & (rows.sparsity == 0.5) & (rows.M == 64)])
    assert len(trace(point, "TCA-BME").x) == 1


def test_time_bars_show_one_case(rows: pd.DataFrame) -> None:
    one = rows.query("M == 64 and N == 8 and sparsity == 0.8")
    bars, limit = plots.time_bars(one).data
    assert set(bars.y) == set(one.kernel)
    assert list(bars.x) == sorted(bars.x, reverse=True)  # plotly draws upwards: fastest on top
    assert max(limit.x) == pytest.approx((one.time_us * one.byte_limit_fraction).max())
    with pytest.raises(ValueError, match="rows hold 8 cases"):
        plots.time_bars(rows)


def test_heatmap_holds_every_speedup(rows: pd.DataFrame) -> None:
    figure = plots.speedup_heatmap(rows, "csr")
    shown = np.concatenate([np.ravel(heat.text) for heat in figure.data])
    assert sorted(shown) == sorted(with_format(rows).query("format == 'csr'").speedup)
    with pytest.raises(ValueError, match="format='sparta': no row"):
        plots.speedup_heatmap(rows, "sparta")


def test_figures_never_mix_devices(rows: pd.DataFrame) -> None:
    mixed = pd.concat([rows, rows.assign(device="h200")])
    with pytest.raises(ValueError, match="allowed: one device"):
        plots.speedups(mixed)


def test_kernel_names_tell_their_format(rows: pd.DataFrame) -> None:
    names = ["tca_bme_amx", "2:4_avx2", "torch_mm", "sparta", "csr_hopper"]
    found = with_format(pd.DataFrame({"kernel": names})).format.fillna("none")
    assert list(found) == ["tca_bme", "2:4", "none", "sparta", "csr"]
    slower = rows.assign(kernel=rows.kernel + "_2", time_us=rows.time_us * 2)
    assert of_sparse_formats(pd.concat([slower, rows])).kernel.str.endswith("_2").sum() == 0
