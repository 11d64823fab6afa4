"""Figures of notebook 22: a kernel's software pipeline, by turn and as a timeline."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.analysis.checked import check_any
from lab_utils.analysis.pipeline import BARRIER, LOADS, WAIT, WGMMA_WAIT
from lab_utils.analysis.schedule import Span
from lab_utils.plots.anatomy import STAGE_COLOURS
from lab_utils.plots.style import INK, MUTED, SERIES_COLOURS, titled

STALL = "waits for data"
ORDER = ("gmem2reg", "ld_sparse", "ld_dense", "rst_smem", "extract", "decode", "smem2tc")
COLOURS = {stage: STAGE_COLOURS[stage] for stage in ORDER} | {
    "store": "#178a5c", STALL: "#f9e0da", WAIT: "#c3c9d1", WGMMA_WAIT: "#a9b2bd",
    BARRIER: "#e4e7eb"}  # fmt: skip
MODEL = "order, waits and amounts: from the trace; durations: a model"
REARRANGED = "amounts: from the trace; order: rearranged; durations: a model"


def pipeline_turns(turns: Sequence[Mapping[str, Sequence[int]]], kernel: str) -> go.Figure:
    """Which tile each stage works on between two barriers; `turns` comes from analysis.pipeline."""
    check_any(turns=turns)
    stages = [stage for stage in ORDER if any(stage in turn for turn in turns)]
    fig = go.Figure()
    for y, stage in enumerate(stages):
        cells = [  # where in its turn, how wide, which tile
            (at - 0.5 + (i + 0.03) / len(turn[stage]), 0.94 / len(turn[stage]), tile)
            for at, turn in enumerate(turns)
            for i, tile in enumerate(turn.get(stage, ()))
        ]
        fig.add_bar(
            base=[base for base, _, _ in cells], x=[width for _, width, _ in cells],
            y=[y] * len(cells), orientation="h", width=0.84, marker_color=COLOURS[stage],
            text=[f"<b>{tile}</b>" for _, _, tile in cells], textposition="inside",
            insidetextanchor="middle", textfont={"color": "white", "size": 13}, textangle=0,
            name=stage, hovertemplate=f"{stage}, tile %{{text}}<extra></extra>",
        )  # fmt: skip
    for at in range(len(turns) - 1):
        fig.add_vline(x=at + 0.5, line={"color": INK, "width": 1})
    fig.update_yaxes(tickvals=list(range(len(stages))), ticktext=stages, showgrid=False, ticks="",
                     autorange="reversed", showline=False)  # fmt: skip
    fig.update_xaxes(title="turn: from one barrier of the block to the next", dtick=1,
                     showgrid=False, range=[-0.5, len(turns) - 0.5], ticks="")  # fmt: skip
    return titled(fig, f"{kernel}: which tile each stage is at", "numbers: tiles; from the trace",
                  height=150 + 44 * len(stages), showlegend=False, barmode="overlay")  # fmt: skip


def pipeline_timeline(
    schedules: Mapping[str, Sequence[Span]], until: float, title: str = "Who does what, when"
) -> go.Figure:
    """A panel for each schedule: loads and wgmma under way, and what each warp does.

    `until`: the last clock that is shown, in all panels.
    """
    check_any(schedules=schedules)
    panels = [(_flights(spans, until), spans) for spans in schedules.values()]
    heights = [len(flights) + 1 + _warps(spans) for flights, spans in panels]
    fig = make_subplots(len(panels), 1, shared_xaxes=True, vertical_spacing=1 / sum(heights),
                        row_heights=heights, subplot_titles=list(schedules))  # fmt: skip
    named: set[str] = set()
    for row, (flights, spans) in enumerate(panels, start=1):
        lines = [*flights, *(f"warp {w}" for w in range(_warps(spans)))]
        bars = _bars(flights, spans, until)
        for stage in (s for s in COLOURS if s in bars):
            fig.add_trace(
                _stage_bars(stage, bars[stage], lines, stage not in named), row=row, col=1
            )
            named.add(stage)
        for end in sorted({s.end for s in spans if s.step.stage == BARRIER and s.end < until}):
            fig.add_vline(x=end, line={"color": INK, "width": 1, "dash": "dot"}, row=row, col=1)
        fig.update_yaxes(tickvals=list(range(len(lines))), ticktext=[f"{line} " for line in lines],
                         autorange="reversed", showgrid=False, ticks="", showline=False,
                         row=row, col=1)  # fmt: skip
    fig.update_xaxes(range=[0, until], showgrid=False)
    fig.update_xaxes(title="clocks of the model", row=len(panels), col=1)
    fig.update_annotations(x=0, xanchor="left", font={"size": 13, "color": INK})
    height = 190 + 34 * sum(heights)
    return titled(
        fig, title, f"{MODEL}<br>numbers: tiles; dotted: barriers", height=height,
        barmode="overlay", margin={"t": 110, "b": 110, "l": 120},
        legend={"orientation": "h", "x": 0, "y": -75 / (height - 220), "yanchor": "top"},
    )  # fmt: skip


def step_clocks_by_lead(
    clocks: pd.DataFrame, floors: Mapping[str, float], kernel: str
) -> go.Figure:
    """Clocks per tile against tiles loaded ahead; columns latency, ahead, clocks.

    `floors`: clocks per tile for which a unit is busy, drawn as the least that a step takes.
    """
    fig = go.Figure()
    for (latency, part), colour in zip(clocks.groupby("latency"), SERIES_COLOURS, strict=False):
        fig.add_scatter(
            x=part.ahead, y=part.clocks, mode="lines+markers", line_color=colour, marker_size=9,
            name=f"latency {latency:,.0f}",
            hovertemplate="%{x} tiles ahead: %{y:,.0f} clocks a tile<extra></extra>",
        )  # fmt: skip
    unit = max(floors, key=floors.get)
    fig.add_hline(y=floors[unit], line={"color": MUTED, "width": 2, "dash": "dash"},
                  annotation_text=f"{unit} alone: {floors[unit]:,.0f}",
                  annotation_position="bottom right")  # fmt: skip
    fig.update_xaxes(title="tiles that loads are ahead (buffers, less one)", dtick=1)
    fig.update_yaxes(title="clocks per tile, model", rangemode="tozero")
    return titled(fig, f"{kernel}: how far ahead must loads be?", REARRANGED, height=440,
                  legend={"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top"})  # fmt: skip


def _warps(spans: Sequence[Span]) -> int:
    return 1 + max(span.step.warp for span in spans)


def _flights(spans: Sequence[Span], until: float) -> dict[str, list[tuple[float, float, int, str]]]:
    """Loads and wgmma of all warps, (begin, ready, tile, stage), in rows that have no overlap."""
    loads: dict[tuple[str, int], tuple[float, float]] = {}
    for span in spans:
        goes_on = span.step.stage in LOADS or span.step.amounts["wgmma"]
        if goes_on and span.step.tile is not None:
            begin, ready = loads.get((span.step.stage, span.step.tile), (np.inf, 0.0))
            key = span.step.stage, span.step.tile
            loads[key] = min(begin, span.begin), max(ready, span.ready)
    rows: dict[str, list[tuple[float, float, int, str]]] = {}
    for (stage, tile), (begin, ready) in sorted(loads.items(), key=lambda item: item[1]):
        slot = 0
        while rows.get(f"{stage} {slot}") and rows[f"{stage} {slot}"][-1][1] > begin:
            slot += 1
        if begin < until:
            rows.setdefault(f"{stage} {slot}", []).append((begin, ready, tile, stage))
    return dict(sorted(rows.items()))


def _bars(flights: Mapping, spans: Sequence[Span], until: float) -> dict[str, list[tuple]]:
    """Bars (line, begin, end, text, hover) of each stage."""
    bars: dict[str, list[tuple]] = {}
    for line, loads in flights.items():
        for begin, ready, tile, stage in loads:
            told = f"{stage} of tile {tile} under way, all warps: {begin:,.0f} to {ready:,.0f}"
            bars.setdefault(stage, []).append((line, begin, ready, str(tile), told))
    before = [0.0] * _warps(spans)
    for span in spans:
        step, free = span.step, before[span.step.warp]
        before[step.warp] = span.end
        if free < min(span.begin, until):
            told = f"warp {step.warp} waits before {step.stage}, {free:,.0f} to {span.begin:,.0f}"
            bars.setdefault(STALL, []).append((f"warp {step.warp}", free, span.begin, "", told))
        if span.begin >= until or span.end == span.begin:
            continue
        tile = "" if step.tile is None else str(step.tile)
        told = f"warp {step.warp}: {step.stage} {tile}, {span.begin:,.0f} to {span.end:,.0f}"
        told += "".join(f"<br>{count:,} {name}" for name, count in step.amounts.items() if count)
        if step.stage == WAIT and step.group is not None:
            told += f"<br>releases copies up to group {step.group}"
        bars.setdefault(step.stage, []).append(
            (f"warp {step.warp}", span.begin, span.end, tile, told)
        )
    return bars


def _stage_bars(stage: str, bars: list[tuple], lines: list[str], first: bool) -> go.Bar:
    begin, end = (np.array([bar[i] for bar in bars]) for i in (1, 2))
    return go.Bar(
        x=end - begin,
        base=begin,
        y=[lines.index(bar[0]) for bar in bars],
        orientation="h",
        width=[0.5 if not bar[0].startswith("warp") else 0.84 for bar in bars],
        marker={"color": COLOURS[stage], "line": {"color": "white", "width": 0.5}},
        text=[bar[3] for bar in bars],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": "white", "size": 11},
        constraintext="both",
        name=stage,
        legendgroup=stage,
        showlegend=first,
        customdata=[bar[4] for bar in bars],
        hovertemplate="%{customdata}<extra></extra>",
    )
