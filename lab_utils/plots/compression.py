"""Figures of notebook 10: how small the formats make a matrix, and what they spend on it."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lab_utils.analysis import compression as c
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.style import MUTED, below, spread, titled

PART_COLOURS = {"values": "#475569", "indices": "#f2a922", "offsets": "#0e8fa3"}


def compression_ratios(
    M: int,
    K: int,
    published: pd.DataFrame | None = None,
    tile: int | None = None,
    cursor: float | None = None,
) -> go.Figure:
    """Compression ratio of every format from 30 % to 90 % sparsity (SpInfer fig. 3).

    `published` (columns format, sparsity, compression_ratio) adds markers. `tile` is the side of
    the square tiles of Tiled-CSL and of TCA-BME's group tiles in place of the published ones.
    `cursor` marks one sparsity and writes each ratio there beside its name.
    """
    s = np.linspace(0.3, 0.9, 121)
    curves = {name: _ratios(name, M, K, s, tile) for name in c.FORMULAS}
    curves["optimal"] = c.optimal_ratio(s)
    curves["2:4"] = np.where(s < 0.5, np.nan, curves["2:4"])  # two of four cannot hold it
    drawn = {name: ~np.isnan(ratio) for name, ratio in curves.items()}
    fig = go.Figure([_curve(n, s[drawn[n]], ratio[drawn[n]]) for n, ratio in curves.items()])
    if published is not None:
        for name, rows in published.groupby("format", sort=False):
            fig.add_trace(_markers(name, rows))
    _label_ends(fig, {name: float(ratio[-1]) for name, ratio in curves.items()})
    if cursor is not None:
        fig.add_vline(x=cursor, line={"color": MUTED, "dash": "dot", "width": 1.5})
        for name, label in zip(curves, fig.layout.annotations, strict=True):
            ratio = np.interp(cursor, s, curves[name])
            label.text += " –" if np.isnan(ratio) else f" {ratio:.2f}"
    tiles = f", tiles {tile}×{tile}" if tile else ""
    fig.update_xaxes(title="sparsity", tickformat=".0%", range=[0.29, 0.905], dtick=0.1, tick0=0.3)
    fig.update_yaxes(
        title="compression ratio (dense ÷ encoded bytes)",
        type="log",
        range=[np.log10(0.44), np.log10(11)],
        tickvals=[0.5, 1, 2, 3, 5, 10],
    )
    return titled(
        fig,
        "Compression ratio of each format",
        f"M = {M}, K = {K}{tiles}, 2-byte values; below 1 the encoding is larger than dense",
        margin={"r": 135 if cursor is None else 175},
        legend={"x": 0.02, "y": 0.98},
        showlegend=published is not None,
    )


def bytes_per_weight(M: int, K: int, sparsity: float) -> go.Figure:
    """What each format spends on one weight: values, indices and offsets, stacked.

    2:4 is left out below 50 %, where it cannot hold all weights.
    """
    fitting = [name for name in c.FORMULAS if name != "2:4" or sparsity >= 0.5]
    parts = {name: c.bytes_per_weight(name, M, K, sparsity) for name in fitting}
    names = sorted(parts, key=lambda name: sum(parts[name].values()), reverse=True)
    labels = [FORMATS[name].label for name in names]
    fig = go.Figure()
    for part, colour in PART_COLOURS.items():
        x = [parts[name][part] for name in names]
        hover = "%{x:.4f} B per weight"
        fig.add_bar(x=x, y=labels, name=part, orientation="h", marker_color=colour)
        fig.data[-1].hovertemplate = hover
    for name, label in zip(names, labels, strict=True):
        total = sum(parts[name].values())
        fig.add_annotation(
            x=total, y=label, text=f"<b>{total:.2f}</b>", xanchor="left", xshift=4, showarrow=False
        )
    fig.add_vline(x=2, line={"color": MUTED, "dash": "dot", "width": 1.5})
    fig.update_xaxes(title="bytes per weight of the dense matrix", rangemode="tozero")
    fig.update_yaxes(showgrid=False, ticks="")
    two_four = "2:4 holds two of every four weights" + (", too few here" if sparsity < 0.5 else "")
    return titled(
        fig,
        f"Where the bytes go at {sparsity:.0%} sparsity",
        f"M = {M}, K = {K}; dotted: dense. {two_four}",
        barmode="stack",
        height=445,
        margin={"t": 105},  # the legend lies between subtitle and bars
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "x": 1,
            "xanchor": "right",
            "y": 1.02,
            "yanchor": "bottom",
        },
    )


def break_evens(M: int, K: int) -> go.Figure:
    """Range of sparsity in which each format is smaller than dense, with its break-even point."""
    found = {name: c.break_even(name, M, K) for name in c.FORMULAS}
    points = sorted(
        ((name, s) for name, s in found.items() if s is not None), key=lambda p: p[1], reverse=True
    )
    fig = go.Figure()
    for name, s in points:
        label, colour = FORMATS[name].label, FORMATS[name].colour
        fig.add_bar(x=[1 - s], base=[s], y=[label], orientation="h", marker_color=colour)
        text = f"<b>{s:.1%}</b>"
        fig.add_annotation(
            x=s, y=label, text=text, xanchor="right", xshift=-6, showarrow=False, font_color=colour
        )
    fig.update_traces(opacity=0.85, hovertemplate="smaller than dense from %{base:.2%}")
    fig.update_xaxes(title="sparsity", range=[-0.09, 1], tickformat=".0%", tick0=0, dtick=0.2)
    fig.update_yaxes(showgrid=False, ticks="")
    return titled(
        fig,
        "Where each format is smaller than dense",
        f"M = {M}, K = {K}; the number is the break-even sparsity (compression ratio 1)",
        height=340,
        showlegend=False,
        bargap=0.4,
    )


def encoded_against_formula(rows: pd.DataFrame) -> go.Figure:
    """How far real encodings lie above the published formula, in percent.

    `rows` has format, sparsity, encoded_bytes, formula_bytes and extra_bytes, the expected
    `stored_extra_bytes`, whose share is drawn as a line below the measured points.
    """
    fig = go.Figure()
    for name, part in rows.groupby("format", sort=False):
        excess = part.encoded_bytes / part.formula_bytes - 1
        colour, label = FORMATS[name].colour, FORMATS[name].label
        expected = part.extra_bytes / part.formula_bytes
        line = {"color": colour, "width": 1.5, "dash": "dot"}
        fig.add_scatter(
            x=part.sparsity, y=expected, mode="lines", line=line, showlegend=False, hoverinfo="skip"
        )
        marker = FORMATS[name].marker
        fig.add_scatter(x=part.sparsity, y=excess, mode="markers", name=label, marker=marker)
    fig.update_xaxes(title="sparsity", tickformat=".0%")
    fig.update_yaxes(title="encoded ÷ formula − 1", tickformat=".1%")
    return titled(
        fig,
        "Real encodings against the published formulas",
        "points: bytes of random matrices; dotted: padding and offsets that the formulas leave out",
        height=550,
        margin={"b": 130},
        legend=below(60, 330),
    )


def tile_overheads(M: int, K: int, sparsity: float) -> go.Figure:
    """Share of the encoding that tiles cost, against the side of square tiles from 8 to 256."""
    sides = [8, 16, 32, 64, 128, 256]
    fig = go.Figure()
    for name in c.TILE_OPTIONS:
        for padding in (False, True):
            share = [c.tile_overhead(name, M, K, sparsity, (t, t), padding=padding) for t in sides]
            fig.add_scatter(
                x=sides,
                y=share,
                mode="lines+markers",
                name=f"{FORMATS[name].label}, {'with alignment' if padding else 'offsets only'}",
                line={"color": FORMATS[name].colour, "dash": "solid" if padding else "dot"},
                marker={"size": 8},
            )
    fig.update_xaxes(title="side of a square tile", type="log", tickvals=sides)
    fig.update_yaxes(
        title="share of the encoded bytes",
        type="log",
        tickformat=".2~%",
        dtick=1,
        exponentformat="none",
    )
    return titled(
        fig,
        "What a tile costs, whatever it holds",
        f"M = {M}, K = {K}, {sparsity:.0%} sparsity; an offset each, values aligned to 16 bytes",
        legend={"x": 0.98, "xanchor": "right", "y": 0.98},
    )


def _ratios(name: str, M: int, K: int, s: np.ndarray, tile: int | None) -> np.ndarray:
    option = c.TILE_OPTIONS.get(name)
    tiles = {option: (tile, tile)} if tile and option else {}
    return c.compression_ratio(name, M, K, s, **tiles)


def _curve(name: str, s: np.ndarray, ratio: np.ndarray) -> go.Scatter:
    reference = name in ("dense", "optimal")
    line = {
        "color": FORMATS[name].colour,
        "width": 1.5 if reference else 2.5,
        "dash": "dash" if reference else "solid",
    }
    hover = f"{FORMATS[name].label} at %{{x:.1%}}: %{{y:.2f}}<extra></extra>"
    return go.Scatter(
        x=s, y=ratio, name=FORMATS[name].label, line=line, showlegend=False, hovertemplate=hover
    )


def _markers(name: str, rows: pd.DataFrame) -> go.Scatter:
    marker = {
        "symbol": "circle",
        "size": 9,
        "color": "white",
        "line": {"color": FORMATS[name].colour, "width": 2},
    }
    return go.Scatter(
        x=rows.sparsity,
        y=rows.compression_ratio,
        mode="markers",
        name="tabulated values of SpInfer's equations",
        legendgroup="published",
        showlegend=name == "optimal",
        marker=marker,
    )


def _label_ends(fig: go.Figure, ends: dict[str, float]) -> None:
    heights = spread([float(np.log10(y)) for y in ends.values()], gap=0.055)
    for name, height in zip(ends, heights, strict=True):
        fig.add_annotation(
            x=1.0,
            xref="paper",
            y=height,
            text=f"<b>{FORMATS[name].label}</b>",
            font={"color": FORMATS[name].colour},
            xanchor="left",
            xshift=6,
            showarrow=False,
        )
