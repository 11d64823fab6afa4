"""Figures of notebook 11: what bandwidth and tensor cores allow, and the papers' numbers."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.analysis import roofline as r
from lab_utils.analysis.checked import check_any
from lab_utils.catalog import Device
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.style import INK, MUTED, SERIES_COLOURS, SPARSE, below, spread, titled

INTENSITY = "computational intensity (FLOP per byte)"
DENSE = FORMATS["dense"].colour


def skinny_roofline(
    machine: r.Machine,
    M: int,
    K: int,
    batches: Sequence[int],
    sparsity: float,
    published: pd.DataFrame | None = None,
    name: str = "",
) -> go.Figure:
    """Skinny products under the roof: dense, and loaded sparse without indices (Flash-LLM fig. 5).

    `published` (columns N, sparsity, tensor_core_percent) adds open markers at the same intensity.
    """
    check_any(batches=batches)
    low = 0.5 * min(batches)
    high = max(600, 1.5 * r.optimal_intensity(M, max(batches), sparsity))
    fig = go.Figure(_roof(machine, low, high))
    series = ((0.0, DENSE, "square", "dense"), (sparsity, SPARSE, "star", f"{sparsity:.0%} sparse"))
    for s, colour, symbol, label in series:
        ci = r.optimal_intensity(M, batches, s)
        share = r.utilisation(machine, ci)
        fig.add_scatter(
            x=ci,
            y=share * machine.peak_tflops,
            mode="markers+text",
            name=f"{label}, N = {', '.join(map(str, batches))}",
            marker={"color": colour, "symbol": symbol, "size": 13 if s else 10},
            text=[f"{u:.1%}" for u in share],
            textposition="bottom right" if s == 0 else "top left",
            textfont={"color": colour, "size": 12},
        )
    if published is not None:
        fig.add_trace(_published_on_roof(machine, M, published))
    _log_axes(fig, machine, x=(low, high), low=0.7 * r.attainable_tflops(machine, low))
    _mark_ridge(fig, machine)
    return titled(
        fig,
        "Skinny products under the roof",
        f"{name}M = {M}, K = {K}; percentages are shares of the peak",
        legend={"x": 0.98, "xanchor": "right", "y": 0.04, "yanchor": "bottom"},
    )


def formats_under_roof(
    machine: r.Machine,
    M: int,
    K: int,
    batches: Sequence[int],
    sparsities: Sequence[float],
    formats: Sequence[str],
    name: str = "",
) -> go.Figure:
    """Every format under the roof, one panel per sparsity (SpInfer fig. 4).

    Values of N that are four times apart keep their groups of points from overlapping.
    """
    check_any(batches=batches, sparsities=sparsities)
    columns = min(2, len(sparsities))
    lines = -(-len(sparsities) // columns)
    fig = make_subplots(
        rows=lines,
        cols=columns,
        shared_xaxes=True,
        shared_yaxes=True,
        horizontal_spacing=0.04,
        vertical_spacing=0.1,
        subplot_titles=[f"{s:.0%} sparsity" for s in sparsities],
    )
    for i, s in enumerate(sparsities):
        where = {"row": i // columns + 1, "col": i % columns + 1}
        fig.add_trace(_roof(machine, 2, 700, MUTED), **where)
        for format in [*formats, "optimal"]:
            points = _format_points(machine, M, K, batches, s, format)
            fig.add_trace(points.update(showlegend=i == 0), **where)
        _label_batches(fig, machine, M, batches, **where)
    _log_axes(fig, machine, x=(3, 600), low=machine.bandwidth_gb_s / 1e3 * 3)
    fig.update_annotations(selector={"yref": "paper"}, font={"size": 13, "color": INK})
    fig.update_xaxes(title=None)
    fig.update_xaxes(title="FLOP per byte", row=lines)  # INTENSITY is as wide as both panels
    fig.update_yaxes(title=None, col=2)
    plot = 270 * lines - 20  # pixels
    return titled(
        fig,
        "Formats under the roof",
        f"{name}M = {M}, K = {K}; a better compression ratio moves a point up the slope",
        height=plot + 110 + 110,
        legend=below(65, plot),
        margin={"t": 110, "b": 110},
    )


def device_roofs(
    devices: Iterable[r.Machine], batches: Sequence[int] = (1, 8, 32, 128)
) -> go.Figure:
    """Roofs of several devices, datasheet solid and measured dashed, with batch sizes marked.

    Each has a name and a title beside what the roofline needs: a `Device` or a measured CPU.
    """
    check_any(devices=(devices := list(devices)))
    fig = go.Figure()
    for i, device in enumerate(devices):
        colour = SERIES_COLOURS[i % len(SERIES_COLOURS)]
        fig.add_trace(_roof(device, 0.5, 2000, colour, device.title))
        if isinstance(device, Device) and "peak_tflops" in device.measured:
            fig.add_trace(_roof(device.as_measured(), 0.5, 2000, colour, "measured", dash="dash"))
    top = np.log10(2.2 * max(d.peak_tflops for d in devices))
    low = np.log10(0.4 * min(d.bandwidth_gb_s for d in devices) / 1e3)
    peaks = [float(np.log10(d.peak_tflops)) for d in devices]
    # The same chip with other memory has the same peak: one height, two labels.
    for i, height in enumerate(spread(peaks, gap=0.05 * (top - low))):
        colour = SERIES_COLOURS[i % len(SERIES_COLOURS)]
        label = f"<b>{devices[i].name}</b>"
        fig.add_annotation(x=1, xref="paper", y=height, text=label, font_color=colour)
        fig.layout.annotations[-1].update(xanchor="left", xshift=6, showarrow=False)
    for n in batches:
        fig.add_vline(x=n, line={"color": MUTED, "dash": "dot", "width": 1})
        fig.add_annotation(x=np.log10(n), y=1, yref="paper", text=f"N = {n}", yshift=2)
        fig.layout.annotations[-1].update(showarrow=False, yanchor="bottom")
        fig.layout.annotations[-1].font = {"size": 11, "color": MUTED}
    fig.update_xaxes(title=INTENSITY, type="log", range=[np.log10(0.5), np.log10(2000)], dtick=1)
    fig.update_yaxes(title="attainable TFLOP/s", type="log", dtick=1, range=[low, top])
    return titled(
        fig,
        "The roofs of the devices",
        "16-bit inputs, fp32 accumulation; dense intensity ≈ N; dashed: our measurement",
        showlegend=False,
        height=540,
        margin={"r": 20 + 9 * max(len(d.name) for d in devices), "t": 100},
    )


def _roof(
    machine: r.Machine, low: float, high: float, colour: str = INK, name: str = "", dash="solid"
) -> go.Scatter:
    x = np.array([low, r.ridge(machine), max(high, r.ridge(machine))])
    y = r.attainable_tflops(machine, x)
    line = {"color": colour, "width": 2, "dash": dash}
    return go.Scatter(
        x=x, y=y, mode="lines", line=line, name=name or "roof", showlegend=False, hoverinfo="skip"
    )


def _published_on_roof(machine: r.Machine, M: int, published: pd.DataFrame) -> go.Scatter:
    marker = {"symbol": "circle-open", "size": 19, "color": INK, "line": {"width": 1.6}}
    return go.Scatter(
        x=r.optimal_intensity(M, published.N, published.sparsity),
        y=published.tensor_core_percent / 100 * machine.peak_tflops,
        mode="markers",
        name="published",
        marker=marker,
        customdata=published.tensor_core_percent,
        hovertemplate="published: %{customdata} %<extra></extra>",
    )


def _format_points(
    machine: r.Machine, M: int, K: int, batches: Sequence[int], s: float, format: str
) -> go.Scatter:
    if format == "optimal":
        ci = r.optimal_intensity(M, batches, s)
    else:
        ci = r.format_intensity(format, M, K, batches, s)
    label = FORMATS[format].label
    return go.Scatter(
        x=ci,
        y=r.attainable_tflops(machine, ci),
        mode="markers",
        marker=FORMATS[format].marker,
        name=label,
        legendgroup=format,
        customdata=batches,
        hovertemplate=f"{label}, N = %{{customdata}}: %{{x:.1f}} FLOP/B, %{{y:.1f}} TFLOP/s",
    )


def _label_batches(
    fig: go.Figure, machine: r.Machine, M: int, batches: Sequence[int], **where
) -> None:
    for n in batches:
        ci = r.dense_intensity(M, n)
        y = np.log10(r.attainable_tflops(machine, ci))
        fig.add_annotation(x=np.log10(ci), y=y, text=f"N = {n}", **where)
        fig.layout.annotations[-1].update(
            showarrow=False, xanchor="left", yanchor="top", xshift=6, yshift=-6
        )
        fig.layout.annotations[-1].font = {"size": 12, "color": MUTED}


def _log_axes(fig: go.Figure, machine: r.Machine, x: tuple[float, float], low: float) -> None:
    ticks = [2**i for i in range(-1, 13)]
    fig.update_xaxes(title=INTENSITY, type="log", range=list(np.log10(x)), tickvals=ticks)
    high = np.log10(machine.peak_tflops * 1.7)
    fig.update_yaxes(
        title="attainable TFLOP/s",
        type="log",
        range=[np.log10(low), high],
        tickvals=[digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5)],
        tickformat="~g",
    )


def _mark_ridge(fig: go.Figure, machine: r.Machine) -> None:
    fig.add_annotation(
        x=1,  # above the plot: at the ridge itself lie points and their percentages
        xref="paper",
        y=1,
        yref="paper",
        text=f"roof {machine.peak_tflops:.4g} TFLOP/s, ridge {r.ridge(machine):.0f} FLOP/B",
        showarrow=False,
        xanchor="right",
        yanchor="bottom",
        font={"size": 12, "color": MUTED},
    )
