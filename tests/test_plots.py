"""Figures hold the data they claim to show, labels keep apart, the renderer says its limits."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import catalog, plots
from lab_utils.analysis import compression as c
from lab_utils.analysis import roofline as r
from lab_utils.analysis.variants import with_variants
from lab_utils.plots import looks, renderer, style

FORMATS = ["dense", "csr", "tiled_csl", "sparta", "tca_bme"]
A100 = catalog.device("A100-80GB").as_cited_by("Flash-LLM")
PEAKS = catalog.published("flash_llm_peak_memory")


@pytest.fixture(scope="module")
def figures() -> dict[str, go.Figure]:
    """Every figure of notebooks 10 and 11, once."""
    fig5 = catalog.published("flash_llm_roofline")
    bars = pd.DataFrame(
        {"series": "dense", "N": [8, 16], "percent": [5.1, 10.3], "published_percent": [5.0, 10.1]}
    )
    encoded = pd.DataFrame(
        {"format": "csr", "sparsity": [0.5], "encoded_bytes": [110.0], "formula_bytes": [100.0]}
    ).assign(extra_bytes=8.0)
    sparsities = [0.4, 0.5, 0.6, 0.7]
    return {
        "ratios": plots.compression_ratios(4096, 4096, catalog.published("compression_ratio")),
        "bytes": plots.bytes_per_weight(4096, 4096, 0.6),
        "break_even": plots.break_evens(4096, 4096),
        "encoded": plots.encoded_against_formula(encoded),
        "tiles": plots.tile_overheads(4096, 4096, 0.6),
        "fig5": plots.skinny_roofline(A100, 48_000, 12_000, [8, 16, 32, 64], 0.4, fig5),
        "bars": plots.utilisation_bars(bars, "title"),
        "fig4": plots.formats_under_roof(A100, 28_672, 8192, [8, 32], sparsities, FORMATS),
        "limit": plots.byte_limit_times(A100, 28_672, 8192, 0.6, FORMATS),
        "devices": plots.device_roofs(catalog.devices().values()),
    }


def traces(fig: go.Figure, name: str) -> list[go.Figure]:
    """The traces of that name."""
    return [trace for trace in fig.data if trace.name == name]


def test_every_figure_has_title_and_axis_titles(figures) -> None:
    for name, fig in figures.items():
        assert fig.layout.title.text, name
        x_titles = [axis.title.text for axis in fig.select_xaxes()]
        assert any(x_titles), name
        assert fig.layout.template == pio.templates["lscd"], name


def test_every_format_has_one_colour_name_and_symbol() -> None:
    names = {*with_variants(c.FORMULAS), "optimal"}
    assert set(looks.FORMATS) == names
    for field in ("colour", "label", "symbol"):
        assert len({getattr(look, field) for look in looks.FORMATS.values()}) == len(names)


def test_ratio_curves_pass_through_the_published_points(figures) -> None:
    fig = figures["ratios"]
    points = [t for t in fig.data if t.mode == "markers"]
    assert sum(len(t.x) for t in points) == len(catalog.published("compression_ratio"))
    curve = traces(fig, "TCA-BME")[0]
    assert np.interp(0.6, curve.x, curve.y) == pytest.approx(2.16, abs=0.005)
    assert min(traces(fig, "2:4")[0].x) >= 0.5 - 1e-9
    assert (min(curve.x), max(curve.x)) == pytest.approx((0.3, 0.9))


def test_cursor_writes_the_ratios_beside_the_names() -> None:
    fig = plots.compression_ratios(4096, 4096, tile=64, cursor=0.6)
    labels = [a.text for a in fig.layout.annotations]
    assert "<b>TCA-BME</b> 2.16" in labels
    assert "<b>no indices</b> 2.50" in labels
    assert "tiles 64×64" in fig.layout.title.subtitle.text


@pytest.mark.parametrize(("cursor", "ratio"), [(0.3, "–"), (0.49, "–"), (0.5, "1.78")])
def test_cursor_gives_two_four_no_ratio_where_it_cannot_hold_a_matrix(cursor, ratio) -> None:
    fig = plots.compression_ratios(4096, 4096, tile=64, cursor=cursor)
    assert f"<b>2:4</b> {ratio}" in [a.text for a in fig.layout.annotations]
    (curve,) = traces(fig, "2:4")
    assert len(curve.x) == len(curve.y) and min(curve.x) == pytest.approx(0.5)


def test_small_tiles_lower_the_curve() -> None:
    large, small = (
        traces(plots.compression_ratios(4096, 4096, tile=t), "TCA-BME")[0].y for t in (64, 8)
    )
    assert np.all(np.asarray(small) < np.asarray(large))


def test_byte_bars_stack_to_the_formula(figures) -> None:
    bars = figures["bytes"].data
    assert [bar.name for bar in bars] == ["values", "indices", "offsets"]
    totals = dict(zip(bars[0].y, np.sum([bar.x for bar in bars], axis=0), strict=True))
    expected = c.tiled_csl_bytes(4096, 4096, 0.6) / 4096**2
    assert totals["Tiled-CSL"] == pytest.approx(expected)
    assert figures["bytes"].layout.barmode == "stack"


@pytest.mark.parametrize(("sparsity", "held"), [(0.49, False), (0.5, True)])
def test_byte_bars_leave_two_four_out_where_it_cannot_hold_a_matrix(sparsity, held) -> None:
    fig = plots.bytes_per_weight(4096, 4096, sparsity)
    assert ("2:4" in fig.data[0].y) == held
    assert ("too few here" in fig.layout.title.subtitle.text) != held
    assert len(fig.layout.annotations) == len(fig.data[0].y)


def test_break_even_bars_start_at_the_break_even_point(figures) -> None:
    start = {bar.y[0]: bar.base[0] for bar in figures["break_even"].data}
    strips = {f"{name} strips" for name in ("zero-row", "lane 2:4", "bitmap", "coded")}
    assert set(start) == {"CSR", "Tiled-CSL", "TCA-BME", "SparTA", "zero-row 2:4", *strips}
    assert start["CSR"] == pytest.approx(c.break_even("csr", 4096, 4096))


def test_encoded_points_and_expected_lines(figures) -> None:
    line, points = figures["encoded"].data
    assert points.y[0] == pytest.approx(0.10)
    assert line.y[0] == pytest.approx(0.08)


def test_tile_lines_fall(figures) -> None:
    assert len(figures["tiles"].data) == 4
    for trace in figures["tiles"].data:
        assert list(trace.y) == sorted(trace.y, reverse=True)


def test_figure_5_shows_percentages_and_published_points(figures) -> None:
    roof, dense, sparse, published = figures["fig5"].data
    assert max(roof.y) == 312
    assert list(dense.text) == ["5.1%", "10.3%", "20.5%", "41.0%"]
    assert list(sparse.text) == ["8.5%", "17.1%", "34.2%", "68.2%"]
    assert list(published.customdata) == [5.1, 10.3, 20.5, 40.1, 8.5, 17.1, 34.2, 68.2]
    assert figures["fig5"].layout.xaxis.type == figures["fig5"].layout.yaxis.type == "log"


def test_utilisation_labels_name_both_values(figures) -> None:
    texts = [t for trace in figures["bars"].data for t in (trace.text or ())]
    assert texts == ["<b>5.1</b> (5.0)", "<b>10.3</b> (10.1)"]


def test_every_format_is_in_every_panel_under_the_roof(figures) -> None:
    fig = figures["fig4"]
    for label in ("dense", "CSR", "Tiled-CSL", "SparTA", "TCA-BME", "no indices"):
        panels = traces(fig, label)
        assert len(panels) == 4
        assert [t.showlegend for t in panels] == [True, False, False, False]
        for trace in panels:
            roof = r.attainable_tflops(A100, np.asarray(trace.x))
            assert list(trace.y) == pytest.approx(list(roof))


def test_byte_limit_bars(figures) -> None:
    bars = figures["limit"].data[0]
    time = dict(zip(bars.y, bars.x, strict=True))["TCA-BME"]
    assert time == pytest.approx(c.tca_bme_bytes(28_672, 8192, 0.6) / 2e6)
    assert any("2.16×" in text for text in bars.text)


def test_measured_devices_have_a_dashed_roof(figures) -> None:
    dashed = [t for t in figures["devices"].data if t.line.dash == "dash"]
    assert [max(t.y) for t in dashed] == [618]  # of an H100 only the bandwidth was measured
    assert len(figures["devices"].data) == len(catalog.devices()) + 1


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(0.01, 10))
def test_spread_keeps_labels_apart_and_in_order(values: list[float], gap: float) -> None:
    placed = style.spread(values, gap)
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(np.asarray(placed)[order]) >= gap - 1e-6)
    assert sum(placed) == pytest.approx(sum(values), abs=1e-6)


def test_spread_leaves_labels_that_are_apart() -> None:
    assert style.spread([5.0, 1.0, 3.0], gap=1.0) == [5.0, 1.0, 3.0]


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: plots.fastest_formats(64, 64, []), "gpus=[]: empty; allowed: one item or more"),
        (lambda: plots.fastest_formats(64, 64, [A100], []), "Ns=[]: empty"),
        (lambda: plots.device_roofs([]), "devices=[]: empty"),
        (lambda: plots.byte_limit_times(A100, 64, 64, 0.5, []), "formats=[]: empty"),
        (lambda: plots.formats_under_roof(A100, 64, 64, [8], [], FORMATS), "sparsities=[]: empty"),
        (lambda: plots.formats_under_roof(A100, 64, 64, [], [0.5], FORMATS), "batches=[]: empty"),
        (lambda: plots.skinny_roofline(A100, 64, 64, [], 0.5), "batches=[]: empty"),
        (lambda: plots.memory_terms([], A100), "works=[]: empty"),
        (lambda: plots.largest_batches(pd.DataFrame()), "answers hold no row"),
        (
            lambda: plots.peak_memory(PEAKS, "OPT-13B"),
            "model='OPT-13B': no published peak; allowed",
        ),
        (lambda: plots.pipeline_timeline({}, 10.0), "schedules={}: empty"),
        (lambda: plots.pipeline_turns([], "tca_bme"), "turns=[]: empty"),
    ],
)
def test_nothing_to_draw_is_named(draw, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        draw()


def test_without_a_browser_figures_carry_json_and_a_line_says_why(monkeypatch, capsys) -> None:
    monkeypatch.setattr(renderer.Chromium, "find_browser", lambda **_: None)
    renderer._start_png_server.cache_clear()
    monkeypatch.setenv(renderer.WANTS_PNG, "1")
    assert renderer.use() == "plotly_mimetype"
    assert "no Chromium or Chrome found" in capsys.readouterr().out
    renderer._start_png_server.cache_clear()


def test_in_jupyterlab_figures_are_json_only(monkeypatch) -> None:
    monkeypatch.delenv(renderer.WANTS_PNG, raising=False)
    assert renderer.use() == "plotly_mimetype"


def test_with_a_browser_figures_carry_a_png(monkeypatch) -> None:
    monkeypatch.setenv(renderer.WANTS_PNG, "1")
    if not renderer.Chromium.find_browser(skip_local=False):
        pytest.skip("no Chromium or Chrome found; on Debian: apt install chromium")
    assert renderer.use() == "plotly_mimetype+png"
    image = go.Figure(go.Scatter(y=[1, 2])).to_image("png", width=200, height=100)
    assert image.startswith(b"\x89PNG")


def test_a_measured_cpu_has_a_roof_among_the_devices() -> None:
    cpu = SimpleNamespace(name="cpu", title="this CPU", peak_tflops=1.2, bandwidth_gb_s=20.0)
    fig = plots.device_roofs([*catalog.devices().values(), cpu])
    assert max(traces(fig, "this CPU")[0].y) == 1.2
    under = plots.skinny_roofline(cpu, 4096, 4096, [1, 8], 0.5)
    assert list(under.data[1].text) == ["1.7%", "13.3%"]


def test_a_long_subtitle_has_a_second_line_and_room_for_it() -> None:
    short, long = "h200, 8 shapes", "h200, 8 shapes, fp16; " + "what the figure says of them " * 3
    one, two = (style.titled(go.Figure(), "title", text, height=400) for text in (short, long))
    assert one.layout.title.subtitle.text == short and one.layout.height == 400
    assert two.layout.title.subtitle.text == long.replace("; ", ";<br>")
    room = two.layout.margin.t - pio.templates["lscd"].layout.margin.t
    assert two.layout.height - 400 == room == style.SECOND_LINE
    assert all(fig.layout.width is None for fig in (one, two))  # as wide as the output area
