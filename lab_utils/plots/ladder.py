"""Figures of notebook 23: what each rung of the ladder costs in shared memory, and in time."""

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.ladder import RUNGS
from lab_utils.ladder.counts import CONFLICTS, PARTS
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.rows import origin, single_case
from lab_utils.plots.style import INK, titled

LADDERS = ("tiled_csl", "tca_bme")
COLOURS = dict(
    zip(PARTS.values(), ("#0e8fa3", "#8b46b8", "#2563c4", "#c98a00", "#5f6b7a"), strict=True)
) | {CONFLICTS: "#d1391f"}


def ladder_wavefronts(counts: pd.DataFrame, what: str) -> go.Figure:
    """Wavefronts of each rung for a tile, by part; `counts` comes from `ladder.counts.wavefronts`.

    `what` says of which matrix.
    """
    fig = _panels(counts.rung.unique(), shared=True)
    for i, ladder in enumerate(LADDERS):
        mine = counts[counts.rung.map(lambda rung: RUNGS[rung].ladder).eq(ladder)]
        for part, colour in COLOURS.items():
            rows = mine[mine.part.eq(part)]
            fig.add_bar(x=rows.wavefronts, y=_labels(rows.rung), orientation="h", name=part,
                        legendgroup=part, showlegend=i == 0, marker_color=colour,
                        hovertemplate=f"%{{y}}: {part} %{{x:,.0f}}<extra></extra>",
                        row=i + 1, col=1)  # fmt: skip
        total = mine.groupby("rung", sort=False).wavefronts.sum()
        fig.add_scatter(x=total, y=_labels(total.index), mode="text", textposition="middle right",
                        text=[f" <b>{n:,.0f}</b>" for n in total], showlegend=False,
                        hoverinfo="skip", row=i + 1, col=1)  # fmt: skip
    widest = counts.groupby("rung").wavefronts.sum().max()
    fig.update_xaxes(range=[0, 1.12 * widest], title=None)
    fig.update_xaxes(title="wavefronts for 128 x 64 weights", row=2)
    legend = {"orientation": "h", "x": 0, "y": -0.14, "yanchor": "top", "traceorder": "normal"}
    return titled(fig, "Through shared memory, rung by rung", what, height=570, barmode="stack",
                  margin={"t": 105, "b": 110}, legend=legend)  # fmt: skip


def ladder_times(rows: pd.DataFrame) -> go.Figure:
    """Times of all rungs in one case, with the byte limit of each and the best dense product.

    Raises ValueError where the rows hold more than one case.
    """
    case, dense_us = single_case(rows), rows.dense_us.iloc[0]
    fig = _panels(rows.rung, shared=False)  # one slow rung would squeeze both ladders
    for i, ladder in enumerate(LADDERS):
        mine = rows[rows.rung.map(lambda rung: RUNGS[rung].ladder).eq(ladder)]
        for trace in _times(mine, first=i == 0):
            fig.add_trace(trace, row=i + 1, col=1)
        fig.update_xaxes(range=[0, 1.7 * max(dense_us, *mine.p90_us)], row=i + 1)
    dashed = {"color": FORMATS["dense"].colour, "dash": "dash", "width": 2}
    fig.add_vline(x=dense_us, line=dashed)
    fig.add_scatter(x=[None], y=[None], mode="lines", line=dashed,  # its line in the legend
                    name=f"best dense library {dense_us:,.0f} µs")  # fmt: skip
    fig.update_xaxes(title="time (µs)", row=2)
    legend = {"orientation": "h", "x": 0, "y": -0.14, "yanchor": "top"}
    title = f"The ladder in time: {case.M} x {case.K}, N = {case.N}, {case.sparsity:.0%} zeros"
    return titled(fig, title, f"{origin(rows)}; whiskers: p10 to p90", height=570,
                  margin={"t": 120, "b": 100}, legend=legend)  # fmt: skip


def _panels(rungs: object, shared: bool) -> go.Figure:
    """A panel for each ladder, as high as it has rungs, with one x-axis or one each."""
    counts = [sum(RUNGS[rung].ladder == ladder for rung in rungs) for ladder in LADDERS]
    titles = [FORMATS[ladder].label for ladder in LADDERS]
    fig = make_subplots(2, 1, shared_xaxes="all" if shared else False, vertical_spacing=0.15,
                        row_heights=counts, subplot_titles=titles)  # fmt: skip
    fig.update_annotations(font={"size": 13, "color": INK}, x=0, xanchor="left")
    fig.update_yaxes(autorange="reversed", showgrid=False, ticks="")
    return fig


def _labels(rungs: object) -> list[str]:
    return [RUNGS[rung].label for rung in rungs]


def _times(rows: pd.DataFrame, first: bool) -> list[go.Bar | go.Scatter]:
    labels = _labels(rows.rung)
    bars = go.Bar(
        x=rows.time_us,
        y=labels,
        orientation="h",
        name="time",
        showlegend=False,
        marker_color=[FORMATS[format].colour for format in rows.format],
        error_x={"type": "data", "symmetric": False, "array": rows.p90_us - rows.time_us,
                 "arrayminus": rows.time_us - rows.p10_us, "thickness": 1.2, "width": 4},
        hovertemplate="%{y}: %{x:,.1f} µs<extra></extra>",
    )  # fmt: skip
    limit = go.Scatter(
        x=rows.time_us * rows.byte_limit_fraction,
        y=labels,
        mode="markers",
        name="byte limit of its encoding",
        legendgroup="limit",
        showlegend=first,
        marker={"symbol": "line-ns", "size": 22, "line": {"width": 3, "color": INK}},
        hovertemplate="%{y}: the bytes alone take %{x:,.1f} µs<extra></extra>",
    )
    told = go.Scatter(
        x=rows.p90_us,
        y=labels,
        mode="text",
        text=[f"  <b>{us:,.0f} µs</b>, {part:.0%} of the limit"
              for us, part in zip(rows.time_us, rows.byte_limit_fraction, strict=True)],
        textposition="middle right",
        showlegend=False,
        hoverinfo="skip",
    )  # fmt: skip
    return [bars, limit, told]
