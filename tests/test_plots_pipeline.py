"""Figures of notebook 22 draw the steps that they are given, where the schedule puts them."""

from collections import Counter

import pandas as pd
import plotly.graph_objects as go
import pytest

from lab_utils import plots
from lab_utils.analysis.pipeline import BARRIER, WAIT, Step
from lab_utils.analysis.schedule import Costs, Span, schedule

COSTS = Costs(latency=100, bytes_per_clock=32, issue=1, start=10)


def warp_of(warp: int) -> list[Step]:
    load, work = Counter(requests=2, sectors=10), Counter(requests=5, wavefronts=20, mma=2)
    fill = [Step(warp, "ld_dense", t, load.copy(), t) for t in (0, 1)]
    turns = []
    for t in (0, 1):
        turns += [Step(warp, WAIT, group=t), Step(warp, BARRIER)]
        turns.append(Step(warp, "smem2tc", t, work.copy()))
    return fill + turns


@pytest.fixture
def spans() -> list[Span]:
    return schedule([warp_of(0), warp_of(1)], COSTS)


def bars(fig: go.Figure, name: str) -> list[go.Bar]:
    return [trace for trace in fig.data if trace.type == "bar" and trace.name == name]


def test_timeline_has_a_bar_for_each_step_of_each_warp(spans) -> None:
    fig = plots.pipeline_timeline({"as it is": spans}, until=1e6)
    (products,) = bars(fig, "smem2tc")
    ours = [span for span in spans if span.step.stage == "smem2tc"]
    assert list(products.base) == [span.begin for span in ours]
    assert list(products.x) == [span.end - span.begin for span in ours]
    assert list(products.text) == ["0", "1", "0", "1"] and len(set(products.y)) == 2
    (loads,) = bars(fig, "ld_dense")
    under_way = [x for x in loads.customdata if "under way" in x]
    assert len(under_way) == 2  # one for each tile, in rows of their own
    lines = [line.strip() for line in fig.layout.yaxis.ticktext]
    assert lines == ["ld_dense 0", "ld_dense 1", "warp 0", "warp 1"]
    (waits,) = bars(fig, WAIT)
    assert "releases copies up to group 0" in waits.customdata[0]
    barriers = {span.end for span in spans if span.step.stage == BARRIER}
    assert {line.x0 for line in fig.layout.shapes} == barriers


def test_panels_share_time_and_a_legend(spans) -> None:
    serial = schedule([warp_of(0), warp_of(1)], COSTS, overlap=False)
    fig = plots.pipeline_timeline({"on": spans, "off": serial}, until=150)
    assert [axis.range for axis in fig.select_xaxes()] == [(0, 150)] * 2
    names = [trace.name for trace in fig.data if trace.showlegend]
    assert sorted(names) == sorted(set(names)) and "waits for data" in names
    assert [note.text for note in fig.layout.annotations] == ["on", "off"]


def test_turns_stand_between_barriers() -> None:
    turns = [{"ld_sparse": [0, 1]}, {"ld_sparse": [2], "decode": [0]}]
    fig = plots.pipeline_turns(turns, "TCA-BME")
    loads, decodes = fig.data
    assert list(loads.text) == ["<b>0</b>", "<b>1</b>", "<b>2</b>"]
    assert list(loads.base) == pytest.approx([-0.485, 0.015, 0.53])
    assert list(loads.x) == pytest.approx([0.47, 0.47, 0.94])
    assert list(decodes.base) == pytest.approx([0.53])
    assert list(fig.layout.yaxis.ticktext) == ["ld_sparse", "decode"]


def test_lines_of_leads_have_the_floor_of_the_busiest_unit() -> None:
    rows = [(latency, k, latency / (k + 1)) for latency in (400, 800) for k in (0, 1, 2)]
    clocks = pd.DataFrame(rows, columns=["latency", "ahead", "clocks"])
    fig = plots.step_clocks_by_lead(clocks, {"memory": 90.0, "shared": 120.0}, "TCA-BME")
    assert [line.name for line in fig.data] == ["latency 400", "latency 800"]
    assert list(fig.data[1].y) == [800, 400, pytest.approx(800 / 3)]
    assert fig.layout.shapes[0].y0 == 120 and "shared alone: 120" in fig.layout.annotations[0].text
