"""Figures of GPU kernels hold the rows they are given, and what was published beside them."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from gpu_rows import DENSE, SPARSE, gpu_rows

from lab_utils import catalog, plots, results
from lab_utils.plots import gallery
from lab_utils.plots.looks import FORMATS, KERNELS
from lab_utils.plots.rows import is_dense, of_gpu_kernels, with_all

SMALL = [(1024, 512), (2048, 512)]
BREAK_EVEN = catalog.published("spmm_break_even")
LIMITS = catalog.published("spmm_break_even_n")
AVERAGES = catalog.published("flash_llm_kernel_speedup")
PEERS = catalog.published("h200_peers")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Two shapes, every kernel."""
    return gpu_rows(SMALL, Ns=(1, 8, 64, 256), sparsities=(0.5, 0.7, 0.8))


def draw_all(rows: pd.DataFrame) -> dict[str, go.Figure]:
    one = rows[rows.M.eq(1024) & rows.N.eq(8)]
    return {
        "fig3": plots.speedups_by_sparsity(one, BREAK_EVEN),
        "fig9": plots.throughputs(rows),
        "averages": plots.average_speedups(rows, AVERAGES),
        "fig12": plots.speedups_by_batch(rows[rows.sparsity == 0.8], LIMITS),
        "ways": plots.ways_by_columns(rows, "tca_bme"),
        "table": plots.speedup_table(rows, PEERS, SMALL),
    }


@pytest.fixture(scope="module")
def figures(rows: pd.DataFrame) -> dict[str, go.Figure]:
    return draw_all(rows)


def named(fig: go.Figure, name: str) -> list:
    return [trace for trace in fig.data if trace.name == name]


def test_every_figure_says_which_device_and_when(figures: dict[str, go.Figure]) -> None:
    for name, fig in figures.items():
        assert fig.layout.title.subtitle.text.startswith("h200, 2026-11-21, "), name
        assert fig.layout.height and any(axis.title.text for axis in fig.select_xaxes()), name


def test_figures_never_mix_devices(rows: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="allowed: one device"):
        draw_all(pd.concat([rows, rows.assign(device="a100")]))


def test_a_kernel_looks_the_same_everywhere(figures: dict[str, go.Figure]) -> None:
    for look in KERNELS.values():
        for name in ("fig3", "fig9", "fig12"):
            traces = named(figures[name], look.label)
            assert traces and all(trace.marker.color == look.colour for trace in traces)
    labels, colours, symbols = zip(
        *((look.label, look.colour, look.symbol) for look in KERNELS.values()), strict=True
    )
    assert len(set(labels)) == len(set(colours)) == len(set(symbols)) == len(KERNELS)


def test_a_kernel_of_a_format_looks_like_the_format() -> None:
    look, simt = KERNELS["tca_bme_mma"], KERNELS["csr_simt"]
    assert (look.label, look.marker) == ("TCA-BME", FORMATS["tca_bme"].marker)
    assert (simt.label, simt.marker, simt.simt) == ("CSR, SIMT", FORMATS["csr"].marker, True)


def test_stored_gpu_kernels_have_a_look() -> None:
    stored = results.measured("spmm")
    stored = stored[~stored.device.str.startswith("cpu-")]
    assert len(of_gpu_kernels(stored)), "and raises ValueError for those not in plots.looks.KERNELS"


def test_dense_products_are_told_from_sparse_ones(rows: pd.DataFrame) -> None:
    assert set(rows[is_dense(rows)].kernel) == set(DENSE)
    assert set(KERNELS) == set(SPARSE)


def test_figure_3_is_one_product(rows: pd.DataFrame, figures: dict[str, go.Figure]) -> None:
    one = rows[rows.M.eq(1024) & rows.N.eq(8) & rows.kernel.eq("tiled_csl_mma")]
    (line,) = named(figures["fig3"], "Tiled-CSL")
    assert list(line.x) == [0.5, 0.7, 0.8] and np.allclose(line.y, one.speedup)
    dashes = {name: named(figures["fig3"], name)[0].line.dash for name in ("CSR, SIMT", "SparTA")}
    assert dashes == {"CSR, SIMT": "dash", "SparTA": "solid"}
    with pytest.raises(ValueError, match="rows hold N = 1, 8, 64, 256; allowed: one value"):
        plots.speedups_by_sparsity(rows, BREAK_EVEN)
    with pytest.raises(ValueError, match="rows hold M = 1024, 2048"):
        plots.speedups_by_sparsity(rows[rows.N == 8], BREAK_EVEN)


def break_evens(fig: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in fig.data if trace.showlegend}


def test_figure_3_marks_what_the_authors_say_of_their_product(rows, figures) -> None:
    one = rows[rows.M.eq(1024) & rows.N.eq(8)]
    fig = plots.speedups_by_sparsity(one.assign(M=36864, K=9216), BREAK_EVEN)
    marks = break_evens(fig)
    assert {name: (mark.x[0], mark.y[0]) for name, mark in marks.items()} == {
        "Flash-LLM 60%": (0.6, 1),
        "Sputnik 86%": (0.86, 1),
        "Sputnik 90%": (0.9, 1),
        "cuSPARSE 98%": (0.98, 1),
    }
    looks = {(mark.marker.symbol, mark.marker.line.color) for mark in marks.values()}
    assert len(looks) == len(marks) and "figure 3" in fig.layout.title.text
    assert not break_evens(figures["fig3"]) and "figure 3" not in figures["fig3"].layout.title.text


def test_figure_9_has_every_throughput(rows: pd.DataFrame, figures: dict[str, go.Figure]) -> None:
    shown = np.concatenate([trace.x for trace in named(figures["fig9"], "TCA-BME")])
    assert sorted(shown) == sorted(rows[rows.kernel == "tca_bme_mma"].tflops)
    dense = np.concatenate([trace.x for trace in named(figures["fig9"], "best dense")])
    fastest = rows[is_dense(rows)].groupby(["M", "N", "sparsity"]).tflops.max()
    assert np.allclose(sorted(dense), sorted(fastest))
    assert sum(bool(trace.showlegend) for trace in figures["fig9"].data) == 1 + len(KERNELS)


def test_averages_are_geometric_means(rows: pd.DataFrame, figures: dict[str, go.Figure]) -> None:
    times = rows.pivot(index=["M", "N", "sparsity"], columns="kernel", values="time_us")
    ratio = np.log(times.csr_simt / times.tiled_csl_mma).groupby("sparsity").mean()
    bars = dict(zip(["cuBLAS", "Sputnik", "SparTA", "cuSPARSE"],
                    named(figures["averages"], "measured"), strict=True))  # fmt: skip
    assert np.allclose(bars["Sputnik"].y, np.exp(ratio))
    printed = named(figures["averages"], "published")
    assert np.isnan(printed[0].y[0]) and list(printed[0].y[1:]) == [1.4, 1.7]
    assert list(printed[1].y[1:]) == [3.6, 3.0]
    assert np.isnan(printed[3].y.astype(float)).all()


def test_averages_need_no_library_but_dense(rows: pd.DataFrame) -> None:
    ours = rows[is_dense(rows) | rows.kernel.str.endswith("_mma")]
    assert len(named(plots.average_speedups(ours, AVERAGES), "measured")) == 1


def test_a_line_of_figure_12_is_of_the_same_shapes_all_along(rows: pd.DataFrame) -> None:
    missing = rows.kernel.eq("tca_bme_mma") & rows.M.eq(1024) & rows.N.eq(256)
    fig = plots.speedups_by_batch(rows[rows.sparsity.eq(0.8) & ~missing], LIMITS)
    (line,) = named(fig, "TCA-BME")
    points = [t for t in fig.data if t.marker.color == line.marker.color and t.mode == "markers"]
    assert list(line.x) == [1, 8, 64] and sorted(points[0].x) == [1, 1, 8, 8, 64, 64, 256]
    assert "TCA-BME" in [note.text.strip("</b>") for note in fig.layout.annotations]


def test_figure_12_is_one_sparsity(rows: pd.DataFrame, figures: dict[str, go.Figure]) -> None:
    (line,) = named(figures["fig12"], "cuSPARSE")
    assert list(line.x) == [1, 8, 64, 256]
    assert "N = 256" in figures["fig12"].layout.annotations[-1].text
    assert figures["fig12"].layout.shapes[-1].x0 == 256
    with pytest.raises(ValueError, match=r"rows hold sparsity = 0\.5, 0\.7, 0\.8"):
        plots.speedups_by_batch(rows, LIMITS)


def test_all_ways_to_multiply_many_columns_have_a_line_each(rows: pd.DataFrame) -> None:
    fused = rows[rows.kernel.eq("tca_bme_mma")]
    first = fused[fused.N.ge(64)].assign(kernel="tca_bme_decoded", speedup=0.5)
    tiles = fused[fused.N.eq(256)].assign(kernel="tca_bme_tiles", speedup=0.7)
    fig = plots.ways_by_columns(pd.concat([rows, first, tiles]), "tca_bme")
    ways = {"in the kernel": [1, 8, 64, 256], "decoded first": [64, 256], "into tiles": [256]}
    for name, Ns in ways.items():
        lines = named(fig, name)
        assert [line.xaxis for line in lines] == ["x", "x2", "x3"]  # sparsities
        assert all(list(line.x) == Ns for line in lines)
    for name, speedup in (("decoded first", 0.5), ("into tiles", 0.7)):
        assert all(np.allclose(line.y, speedup) for line in named(fig, name))
    panel = fused[fused.sparsity.eq(0.5) & fused.N.eq(8)]
    assert named(fig, "in the kernel")[0].y[1] == pytest.approx(np.sqrt(panel.speedup.prod()))
    only_fused = plots.ways_by_columns(rows, "tca_bme")
    assert not named(only_fused, "decoded first") and len(named(only_fused, "in the kernel")) == 3
    with pytest.raises(ValueError, match="rows hold no kernel of nothing"):
        plots.ways_by_columns(rows, "nothing")


def test_means_need_all_matrices(rows: pd.DataFrame) -> None:
    lacking = rows.drop(rows.query("kernel == 'cusparse' and M == 2048 and N == 8").index)
    table = plots.speedup_table(lacking, PEERS, SMALL)
    cusparse, sparta = (table.data[list(KERNELS).index(name)] for name in ("cusparse", "sparta"))
    assert [str(text) for text in cusparse.text[1]] != [""] * 4 and cusparse.text[1][1] == ""
    two = rows.query("kernel == 'sparta' and sparsity == 0.7 and N == 8").speedup
    assert sparta.text[1][1] == f"{np.sqrt(two.prod()):.2f}"
    assert with_all(lacking, [*SMALL, (1, 1)]).empty
    with pytest.raises(ValueError, match="no kernel with all of the 3 matrices"):
        plots.speedup_table(rows, PEERS, [*SMALL, (1, 1)])


def test_a_table_without_originals_does_not_name_them(rows: pd.DataFrame) -> None:
    ours = plots.speedup_table(rows[rows.kernel.str.startswith("zero_row")], PEERS, SMALL)
    assert "original" not in ours.layout.title.subtitle.text and len(ours.data) == 3
    assert not any("(" in text or "<b>" in text for trace in ours.data for text in trace.text.flat)


def test_a_table_says_whose_kernels_it_has_and_what_a_blank_is(rows: pd.DataFrame) -> None:
    every = rows[~is_dense(rows)]
    ours, rebuilt = (every[every.kernel.str.startswith(name)] for name in ("zero_row", "tca_bme"))
    for some, whose in ((ours, "Our kernels for Hopper"), (rebuilt, "Published kernels, rebuilt"),
                        (every, "All kernels")):  # fmt: skip
        fig = plots.speedup_table(some, PEERS, SMALL)
        assert fig.layout.title.text == f"<b>{whose}: speed-up over dense</b>"
        assert "blank" not in fig.layout.title.subtitle.text
    fewer = rebuilt[rebuilt.N.ne(8) | rebuilt.sparsity.ne(0.5)]
    (table,) = plots.speedup_table(fewer, PEERS, SMALL).data
    said = plots.speedup_table(fewer, PEERS, SMALL).layout.title.subtitle.text
    assert table.text[0, 1] == "" and said.endswith("; blank: not measured with all matrices")


def test_the_gallery_has_each_kernel_in_one_picture() -> None:
    shown = [[gallery.FIGURES[name]().layout.annotations[i].text for i in (0, 1)]
             for name in ("hopper_kernels", "published_kernels")]  # fmt: skip
    assert shown == [
        ["zero-row 2:4", "zero-row strips"],
        ["TCA-BME (SpInfer)", "Tiled-CSL (Flash-LLM)"],
    ]


def test_the_gallery_sets_sparse_weights_of_opt_175b_beside_dense_ones() -> None:
    fig = gallery.opt_175b()
    names = {trace.name for trace in fig.data if trace.xaxis == "x2"}
    assert "Flash-LLM over FasterTransformer, 8 A100s" in names
    (ratio,) = (trace for trace in fig.data if trace.name == "zero-row 2:4 80 %, 2 GPUs"
                and trace.xaxis == "x2" and trace.mode != "markers")  # fmt: skip
    assert dict(zip(ratio.x, ratio.y, strict=True))["16"] > 2


def test_the_table_holds_the_originals(figures: dict[str, go.Figure]) -> None:
    bme, csl = figures["table"].data[:2]
    cell = {(y, x): bme.text[i][j] for i, y in enumerate(bme.y) for j, x in enumerate(bme.x)}
    assert cell["50%", "8"].endswith("<br>(0.64)") and cell["80%", "1"].endswith("(1.46)")
    assert "(" not in cell["50%", "256"]
    for text in np.ravel(csl.text):
        ours, _, theirs = str(text).partition("<br>")
        number = float(ours.strip("</b>"))
        assert not theirs or (number >= float(theirs.strip("()"))) == ours.startswith("<b>")


def test_the_eight_matrices_are_those_of_the_peers() -> None:
    assert len(catalog.opt_matrices()) == len(set(catalog.opt_matrices())) == 8
    assert (21504, 7168) in catalog.opt_matrices() and (12288, 49152) in catalog.opt_matrices()


def test_unknown_kernels_and_no_kernels_are_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="kernel='warp_magic': unknown; allowed: tca_bme_mma"):
        plots.throughputs(rows.replace("sparta", "warp_magic"))
    with pytest.raises(ValueError, match="no sparse kernel"):
        plots.throughputs(rows[is_dense(rows)])


def test_products_that_decode_first_are_no_kernels(rows: pd.DataFrame) -> None:
    others = [
        rows[rows.kernel == "sparta"].assign(kernel=f"tca_bme_{way}")
        for way in ("decoded", "tiles")
    ]
    found = of_gpu_kernels(pd.concat([rows, *others]))
    assert not is_dense(found).any() and set(found.kernel) == set(of_gpu_kernels(rows).kernel)


def test_the_legend_names_kernels_that_the_first_panel_lacks(rows: pd.DataFrame) -> None:
    first = rows.N.eq(1) & rows.sparsity.eq(0.5)
    fig = plots.throughputs(rows[~(first & rows.kernel.eq("sparta"))])
    shown = [trace.name for trace in fig.data if trace.showlegend]
    assert KERNELS["sparta"].label in shown and len(set(shown)) == len(shown)
    assert set(shown) == {trace.name for trace in fig.data}


def test_time_bars_have_the_colours_of_kernels(rows: pd.DataFrame) -> None:
    one = rows.query("M == 1024 and N == 8 and sparsity == 0.8")
    bars = plots.time_bars(one).data[0]
    colours = dict(zip(bars.y, bars.marker.color, strict=True))
    assert colours["cusparse"] == KERNELS["cusparse"].colour
    assert colours["cublaslt"] == colours["cublas_mm"]
