"""Figures of notebook 40 hold the rows they are given, and say so where there are none."""

import pandas as pd
import plotly.graph_objects as go
import pytest
from playwright.sync_api import sync_playwright

from lab_utils import catalog, plots, results
from lab_utils.analysis import memory as m
from lab_utils.plots.end_to_end import BEST, FIGURES

NO_ROWS = pd.DataFrame(columns=results.COLUMNS["opt"])
THROUGHPUT = catalog.published("flash_llm_throughput")
SPEEDUP = catalog.published("flash_llm_end_to_end")
PEAKS = catalog.published("flash_llm_peak_memory")
A100, H200 = catalog.device("A100-80GB"), catalog.device("H200-SXM")


def row(format: str, batch: int, rate: float, **changes) -> dict:
    """A row of `opt` with that many tokens per GPU-second."""
    seconds = batch * 512 / rate
    parts = {"matmul_s": 0.6, "attention_s": 0.1, "communication_s": 0.1, "other_s": 0.2}
    return {
        "date": "2026-11-21T00:00:00", "commit": "c", "device": "h200", "driver": "", "cuda": "",
        "model": "OPT-30B", "gpus": 1, "format": format, "weights": "random", "dtype": "fp16",
        "batch": batch,
        "sparsity": 0.8 if format == "tca_bme" else 0.0, "prompt": 64, "output": 512,
        "seconds": seconds, "tokens_per_gpu_second": rate, "peak_gb": 30.0,
        **{name: share * seconds for name, share in parts.items()}, **changes,
    }  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Dense to batch 16, sparse to 64, and transformers beside."""
    found = [row("dense", 8, 200), row("dense", 16, 400), row("transformers", 8, 150)]
    return pd.DataFrame(found + [row("tca_bme", batch, 60 * batch) for batch in (8, 16, 64)])


def drawn(rows: pd.DataFrame, model: str = "OPT-30B") -> go.Figure:
    return plots.generation_throughput(rows, THROUGHPUT, SPEEDUP, model)


def test_rows_of_two_dtypes_are_refused(rows) -> None:
    mixed = pd.concat([rows, rows.assign(dtype="bf16")])
    with pytest.raises(ValueError, match="rows of bf16, fp16; allowed: one dtype"):
        drawn(mixed)


def points(fig: go.Figure, name: str, axis: str) -> dict[str, float]:
    """What is drawn under a name in one panel: batch -> height."""
    traces = [t for t in fig.data if t.name == name and t.xaxis == axis]
    return {x: y for trace in traces for x, y in zip(trace.x, trace.y, strict=True)}


def test_lines_are_the_rows_and_each_side_s_best(rows) -> None:
    fig = drawn(rows)
    assert points(fig, "TCA-BME 80 %, 1 GPU", "x") == {
        "8": 480, "16": 960, "64": 3840, BEST: 3840,
    }  # fmt: skip
    ratios = points(fig, "TCA-BME 80 %, 1 GPU", "x2")
    assert ratios == {"8": 2.4, "16": 2.4, BEST: 9.6}  # at 64 dense has nothing to compare with
    assert points(fig, "dense, 1 GPU", "x") == {"8": 200, "16": 400, BEST: 400}
    assert points(fig, "transformers, 1 GPU", "x2") == {}


def test_marks_say_how_many_gpus(rows) -> None:
    fig = drawn(pd.DataFrame([*rows.to_dict("records"), row("dense", 8, 190, gpus=2)]))
    marks = {trace.name: trace.marker.symbol for trace in fig.data if trace.name[:5] == "dense"}
    assert marks == {"dense, 1 GPU": "circle", "dense, 2 GPUs": "triangle-up"}


def test_lines_with_fewer_zeros_are_pale(rows) -> None:
    fig = drawn(pd.concat([rows, pd.DataFrame([row("tca_bme", 8, 300, sparsity=0.5)])]))
    pale = {trace.name for trace in fig.data if (trace.opacity or 1) < 1}
    assert pale == {"TCA-BME 50 %, 1 GPU"}
    assert all((trace.opacity or 1) == 1 for trace in drawn(rows).data)


def test_speedups_are_per_gpu_over_the_dense_rows_of_a_batch() -> None:
    """On however many GPUs those ran: the row with most tokens per GPU-second."""
    found = [row("dense", 16, 100, gpus=8), row("dense", 16, 120, gpus=4),
             row("dense", 64, 400, gpus=4), row("tca_bme", 16, 240, gpus=2)]  # fmt: skip
    fig = drawn(pd.DataFrame(found))
    assert points(fig, "TCA-BME 80 %, 2 GPUs", "x2") == {"16": 2}
    assert points(fig, "dense, 4 GPUs", "x")[BEST] == 400


def test_no_best_of_a_side_that_had_fewer_sequences_than_dense_at_its_best() -> None:
    """For each GPU: what was not tried may be better."""
    dense = row("dense", 64, 400, gpus=4)
    for batch, expected in ((31, {}), (32, {BEST: 0.6})):
        fig = drawn(pd.DataFrame([dense, row("tca_bme", batch, 240, gpus=2)]))
        assert points(fig, "TCA-BME 80 %, 2 GPUs", "x2") == expected


def test_at_best_one_format_stands_for_each_side(rows) -> None:
    one = row("tiled_csl", 8, 500, sparsity=0.8)
    fig = drawn(pd.concat([rows, pd.DataFrame([one])]))
    assert points(fig, "Tiled-CSL 80 %, 1 GPU", "x") == {"8": 500}
    assert points(fig, "Tiled-CSL 80 %, 1 GPU", "x2") == {"8": 2.5}
    assert points(fig, "TCA-BME 80 %, 1 GPU", "x2")[BEST] == 9.6


def test_models_of_several_formats_are_named_by_all(rows) -> None:
    mixed = rows.assign(format=rows.format.replace("tca_bme", "tca_bme+tiled_csl"))
    assert points(drawn(mixed), "TCA-BME + Tiled-CSL 80 %, 1 GPU", "x")["8"] == 480


def test_published_marks_are_the_printed_numbers() -> None:
    fig = drawn(NO_ROWS)
    assert points(fig, "Flash-LLM, 1 A100", "x") == {"64": 1187}
    assert points(fig, "FasterTransformer, 1 A100", "x") == {BEST: 359}
    doubled = points(fig, "DeepSpeed, 2 A100s", "x2")
    assert doubled == {"8": 1.91, "16": 1.87, "32": 1.67, "64": 1.54}
    best = points(fig, "DeepSpeed, 1 A100", "x2")
    assert best == {BEST: 3.4}


@pytest.mark.parametrize("model", FIGURES)
def test_without_rows_figures_say_how_to_make_them(model: str) -> None:
    subtitle = drawn(NO_ROWS, model).layout.title.subtitle.text
    assert "no rows yet: python -m lab_utils.llm measure" in subtitle and model in subtitle
    assert FIGURES[model][0] in drawn(NO_ROWS, model).layout.title.text


def test_an_empty_panel_says_why() -> None:
    notes = [note.text for note in drawn(NO_ROWS, "OPT-175B").layout.annotations]
    assert "the paper prints no values" in notes
    assert "the paper prints no values" not in [n.text for n in drawn(NO_ROWS).layout.annotations]


def test_rows_say_where_they_are_from(rows) -> None:
    subtitle = drawn(rows).layout.title.subtitle.text
    assert subtitle.startswith("h200, 2026-11-21, random weights, 64 + 512 tokens")
    both = pd.concat([rows, rows.assign(device="a100")])
    with pytest.raises(ValueError, match="allowed: one device"):
        drawn(both)


def test_parts_are_seconds_of_all_gpus(rows) -> None:
    two = pd.DataFrame([row("dense", 8, 200), row("tca_bme", 8, 300, gpus=2)])
    fig = plots.time_breakdown(two, "OPT-30B")
    matmul = next(trace for trace in fig.data if trace.name == "MatMul")
    assert list(matmul.y) == ["dense, 1 GPU, batch 8", "TCA-BME 80 %, 2 GPUs, batch 8"]
    assert list(matmul.x) == pytest.approx([0.6 * 8 * 512 / 200, 2 * 0.6 * 8 * 512 / 300])
    assert fig.layout.xaxis.title.text == "GPU-seconds"
    here = plots.time_breakdown(rows.assign(device="cpu-zen4"), "OPT-30B")
    assert here.layout.xaxis.title.text == "seconds" and here.data[0].y[0] == "dense, batch 8"


def test_bars_of_one_batch_stand_together() -> None:
    four = {"gpus": 4}
    found = [row("tca_bme", 16, 300), row("dense", 64, 400, **four),
             row("tca_bme", 8, 200), row("dense", 16, 100, **four)]  # fmt: skip
    fig = plots.time_breakdown(pd.DataFrame(found), "OPT-30B")
    names = ["TCA-BME 80 %, 1 GPU, batch 8", "dense, 4 GPUs, batch 16",
             "TCA-BME 80 %, 1 GPU, batch 16", "dense, 4 GPUs, batch 64"]  # fmt: skip
    assert list(fig.data[0].y) == names
    matmul = [0.6 * 4096 / 200, 0.6 * 4 * 8192 / 100, 0.6 * 8192 / 300, 0.6 * 4 * 32768 / 400]
    assert list(fig.data[0].x) == pytest.approx(matmul)


def test_parts_that_exceed_the_whole_are_drawn_whole(rows) -> None:
    one = row("dense", 8, 200)
    one |= {"matmul_s": 2 * one["seconds"], "other_s": -1.5 * one["seconds"]}
    fig = plots.time_breakdown(pd.DataFrame([one]), "OPT-30B")
    low, high = fig.layout.xaxis.range
    assert low < one["other_s"] and high > one["matmul_s"]
    assert fig.layout.annotations[0].x >= one["matmul_s"]


def test_no_breakdown_is_an_error(rows) -> None:
    for none in (rows.assign(matmul_s=None), rows.assign(model="OPT-66B")):
        with pytest.raises(ValueError, match="model='OPT-30B': no row with a breakdown"):
            plots.time_breakdown(none, "OPT-30B")


@pytest.mark.ui
@pytest.mark.parametrize("width", [800, 1400])
@pytest.mark.parametrize("model", FIGURES)
def test_titles_end_before_the_toolbar(model: str, width: int, browser: str, tmp_path) -> None:
    long = [row(f, 64, 900, model=model, gpus=2, sparsity=0.8) for f in ("dense", "tca_bme")]
    figures = [plots.time_breakdown(pd.DataFrame(long), model), drawn(NO_ROWS, model)]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": width + 50, "height": 700})
        for i, fig in enumerate(figures):
            file = tmp_path / f"{i}.html"
            fig.update_layout(width=width).write_html(file, config={"displayModeBar": True})
            page.goto(file.as_uri())
            bar, title = (page.locator(f".{name}") for name in ("modebar", "gtitle"))
            right = title.bounding_box()["x"] + title.bounding_box()["width"]
            assert 0 < right < bar.bounding_box()["x"] - 10
        chromium.close()


# --- the planner's


def test_bars_add_up_to_what_is_needed() -> None:
    model = catalog.model("OPT-66B")
    works = [m.Workload(model, "dense", 0.0, 16, gpus=g) for g in (1, 2)]
    fig = plots.memory_terms(works, H200)
    assert [t.name for t in fig.data] == list(m.needs(works[0]))
    totals = [sum(trace.x[i] for trace in fig.data) for i in range(2)]
    assert totals == pytest.approx([m.total(work) / 1e9 for work in works])
    assert [note.text.endswith("does not fit") for note in fig.layout.annotations] == [True, False]


def test_bars_of_a_format_that_a_gpu_cannot_multiply_say_so() -> None:
    """Whether it would fit or not."""
    model = catalog.model("OPT-66B")
    works = [m.Workload(model, "zero_row_24", 0.8, 16), m.Workload(model, "tca_bme", 0.8, 16)]
    fig = plots.memory_terms(works, catalog.device("A100-80GB"))
    said = [note.text.split("</b>")[1] for note in fig.layout.annotations]
    assert said == [" needs sm_90", ""]


def test_table_1_is_drawn_where_it_was_printed() -> None:
    fig = plots.peak_memory(PEAKS)
    first = [trace for trace in fig.data if trace.xaxis == "x"]
    circles = next(trace for trace in first if trace.name == "published")
    assert dict(zip(circles.x, circles.y, strict=True)) == {
        "8": 34.7, "16": 40.8, "32": 52.9, "64": 77.1,
    }  # fmt: skip
    crosses = next(trace for trace in first if trace.name == "out of memory")
    assert list(crosses.x) == ["128"]
    bars = [trace for trace in first if isinstance(trace, go.Bar)]
    assert sum(bar.y[0] for bar in bars) == pytest.approx(34.7, rel=0.035)


def test_the_largest_batches_are_the_planner_s() -> None:
    formats = (("dense", 0.0), ("tca_bme", 0.8), ("zero_row_24", 0.8))
    works = [m.Workload(catalog.model(name), format, sparsity)
             for name in ("OPT-66B", "OPT-175B") for format, sparsity in formats]  # fmt: skip
    fig = plots.largest_batches(pd.DataFrame(m.answers(works, [H200, A100])))
    here, there = fig.data
    assert here.text.tolist() == [["12", "81", "75"], ["0", "19", "12"]]
    assert there.text[:, 2].tolist() == ["–", "–"] and "–" not in there.text[:, :2]
    assert fig.layout.title.subtitle.text == (
        "prompt 64, output 512; white: not even one sequence; –: no kernel for that GPU"
    )
    alone = plots.largest_batches(pd.DataFrame(m.answers(works, [H200])))
    assert "–" not in alone.layout.title.subtitle.text
