"""Figures of single cases: the time of every kernel, and a format's speed-up in all of them.

Both take rows with the columns of `results.COLUMNS["spmm"]`, all of one device.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.looks import FORMATS, KERNELS
from lab_utils.plots.rows import of_sparse_formats, origin, shapes, single_case, with_format
from lab_utils.plots.style import DIVERGING, INK, titled

GAP = 95  # pixels between lines of panels


def time_bars(rows: pd.DataFrame) -> go.Figure:
    """Time of every kernel for one case, fastest first, with the range from p10 to p90.

    Dense baselines are grey. The black tick on each bar is its byte limit: reading its bytes once.
    Raises ValueError where the rows hold more than one case.
    """
    case = single_case(rows)
    rows = with_format(rows).sort_values("time_us", ascending=False)
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": rows.p90_us - rows.time_us,
        "arrayminus": rows.time_us - rows.p10_us,
        "color": INK,
        "thickness": 1.2,
        "width": 4,
    }
    fig = go.Figure()
    fig.add_bar(
        x=rows.time_us,
        y=rows.kernel,
        orientation="h",
        error_x=whiskers,
        marker_color=[_colour(row) for row in rows.itertuples()],
        showlegend=False,
        hovertemplate="%{y}: %{x:,.0f} µs<extra></extra>",
    )
    fig.add_trace(_byte_limit_ticks(rows))
    for row in rows.itertuples():
        text = f"<b>{row.time_us:,.0f} µs</b>  {row.speedup:.2f}×"
        fig.add_annotation(x=max(row.p90_us, row.time_us), y=row.kernel, text=text)
    fig.update_annotations(showarrow=False, xanchor="left", xshift=8)
    fig.update_xaxes(title="time (µs)", range=[0, 1.28 * float(rows.p90_us.max())])
    fig.update_yaxes(showgrid=False, ticks="")
    return titled(
        fig,
        f"One product, every kernel: N = {case.N}, {case.sparsity:.0%} sparsity",
        f"{origin(rows)}; whiskers: p10 to p90; ×: speed-up over the best dense product",
        height=150 + 42 * len(rows),
        margin={"t": 100},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom"},
    )


def speedup_heatmap(rows: pd.DataFrame, format: str) -> go.Figure:
    """Speed-up of one format over the best dense product: shapes by N, a panel per sparsity.

    Red is slower than dense, blue faster; the colour scale is logarithmic, so that half the speed
    is as far from white as twice the speed.
    """
    rows = of_sparse_formats(rows)
    rows = rows[rows.format == format]
    if rows.empty:
        raise ValueError(f"format={format!r}: no row of it among those given")
    names = shapes(rows.sort_values(["M", "K"])).unique()
    sparsities = sorted(rows.sparsity.unique())
    lines = -(-len(sparsities) // 3)
    columns = -(-len(sparsities) // lines)
    panel = 42 * len(names)  # pixels
    inside = panel * lines + GAP * (lines - 1)
    fig = make_subplots(
        rows=lines, cols=columns, subplot_titles=[f"{s:.0%} sparsity" for s in sparsities],
        shared_yaxes=True, vertical_spacing=GAP / inside if lines > 1 else 0,
    )  # fmt: skip
    reach = max(0.5, float(np.abs(np.log2(rows.speedup)).max()))
    for i, s in enumerate(sparsities):
        heat = _heat(rows[rows.sparsity == s], reach)
        fig.add_trace(heat, row=i // columns + 1, col=i % columns + 1)
    categories = {"type": "category", "showgrid": False, "ticks": ""}
    fig.update_xaxes(title="N", **categories)
    fig.update_yaxes(**categories, categoryorder="array", categoryarray=names[::-1])
    fig.update_annotations(font={"size": 13, "color": INK})
    return titled(
        fig,
        f"{FORMATS[format].label} against the best dense product",
        origin(rows),
        height=inside + 110 + 64,
        margin={"t": 110},
    )


def _colour(row: tuple) -> str:
    """That of the kernel or its format; of dense for a baseline."""
    if row.kernel in KERNELS:
        return KERNELS[row.kernel].colour
    return FORMATS.get(row.format, FORMATS["dense"]).colour


def _byte_limit_ticks(rows: pd.DataFrame) -> go.Scatter:
    return go.Scatter(
        x=rows.time_us * rows.byte_limit_fraction,
        y=rows.kernel,
        mode="markers",
        marker={"symbol": "line-ns", "size": 22, "line": {"color": "black", "width": 2.5}},
        name="byte limit",
        hovertemplate="byte limit of %{y}: %{x:,.0f} µs<extra></extra>",
    )


def _heat(rows: pd.DataFrame, reach: float) -> go.Heatmap:
    table = rows.assign(shape=shapes(rows)).pivot_table("speedup", "shape", "N")
    return go.Heatmap(
        z=np.log2(table),
        x=table.columns.astype(str),
        y=table.index,
        text=table,
        texttemplate="%{text:.2f}",
        textfont={"color": INK},
        colorscale=DIVERGING,
        zmin=-reach,
        zmax=reach,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{y}, N = %{x}: %{text:.2f}×<extra></extra>",
    )
