"""Figures of notebook 11: utilisation against the papers, and times at the byte limit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lab_utils.analysis import roofline as r
from lab_utils.analysis.checked import check_any
from lab_utils.analysis.compression import format_bytes
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.style import INK, RING, SERIES_COLOURS, SPARSE, titled

DENSE = FORMATS["dense"].colour


def utilisation_bars(rows: pd.DataFrame, title: str, subtitle: str = "") -> go.Figure:
    """Tensor-core utilisation by batch: bars are ours, open markers the published value.

    `rows` has series, N, percent and published_percent; series keep the order of first appearance.
    """
    fig = go.Figure()
    colours = dict(zip(rows.series.unique(), [DENSE, SPARSE, *SERIES_COLOURS], strict=False))
    count = len(colours)
    for i, (series, part) in enumerate(rows.groupby("series", sort=False)):
        width = 0.8 / count
        x = np.arange(len(part)) + (i - (count - 1) / 2) * width
        fig.add_bar(x=x, y=part.percent, width=width * 0.92, name=series)
        fig.data[-1].update(marker_color=colours[series], opacity=0.9)
        fig.add_trace(_published_bars(x, part, first=i == 0))
        fig.add_trace(_bar_labels(x, part))
    batches = list(dict.fromkeys(rows.N))
    fig.update_xaxes(
        title="N (sequences decoded together)",
        tickvals=list(range(len(batches))),
        ticktext=[str(n) for n in batches],
        showgrid=False,
    )
    top = float(rows[["percent", "published_percent"]].max().max())
    fig.update_yaxes(title="% of tensor-core peak", range=[0, top * 1.14])
    return titled(fig, title, subtitle, legend={"x": 0.02, "y": 0.98}, height=460)


def byte_limit_times(
    machine: r.Machine, M: int, K: int, sparsity: float, formats: Sequence[str], name: str = ""
) -> go.Figure:
    """Time to read the weights once in each format: no kernel on that machine can be faster."""
    check_any(formats=formats)
    times = {f: r.byte_limit_us(machine, format_bytes(f, M, K, sparsity)) for f in formats}
    dense = r.byte_limit_us(machine, format_bytes("dense", M, K, sparsity))
    order = sorted(times, key=times.__getitem__, reverse=True)
    labels = [FORMATS[f].label for f in order]
    fig = go.Figure()
    fig.add_bar(
        x=[times[f] for f in order],
        y=labels,
        orientation="h",
        marker_color=[FORMATS[f].colour for f in order],
        text=[f"<b>{times[f]:,.0f} µs</b>  {dense / times[f]:.2f}×" for f in order],
        textposition="outside",
        cliponaxis=False,
    )
    fig.update_xaxes(title="time to read the weights (µs)", range=[0, 1.2 * max(times.values())])
    fig.update_yaxes(showgrid=False, ticks="")
    return titled(
        fig,
        f"The byte limit at {sparsity:.0%} sparsity",
        f"{name}M = {M}, K = {K}; × is the speed-up over dense when both run at the limit",
        height=380,
        showlegend=False,
    )


def _published_bars(x: np.ndarray, part: pd.DataFrame, first: bool) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=part.published_percent,
        mode="markers",
        name="published (in brackets)",
        legendgroup="published",
        legendrank=2000,
        showlegend=first,
        marker=RING,
    )


def _bar_labels(x: np.ndarray, part: pd.DataFrame) -> go.Scatter:
    pairs = zip(part.percent, part.published_percent, strict=True)
    return go.Scatter(
        x=x,
        y=part[["percent", "published_percent"]].max(axis=1),
        mode="markers+text",
        marker={"size": 9, "opacity": 0},  # keeps the text clear of the published marker
        text=[f"<b>{ours:.1f}</b> ({theirs:.1f})" for ours, theirs in pairs],
        textposition="top center",
        textfont={"size": 12, "color": INK},
        showlegend=False,
        hoverinfo="skip",
    )
