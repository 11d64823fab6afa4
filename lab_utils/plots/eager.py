"""Layers as Python calls them, beside the same calls in a CUDA graph, from rows of `eager`."""

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import line_of_dense
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.rows import days, only, shapes
from lab_utils.plots.style import INK, MUTED, SPARSE, titled

# How a layer is called: the columns of its time and of the dense layer's, and a colour.
CALLS = {
    "in a CUDA graph": ("graph_us", "dense_graph_us", SPARSE),
    "by Python": ("time_us", "dense_us", MUTED),
}


def eager_speedups(rows: pd.DataFrame, N: int) -> go.Figure:
    """Speed-up of the fastest sparse layer over `torch.nn.Linear`, called in both ways.

    A group of bars for each shape, smaller ones first, a panel for each sparsity. `rows` are of one
    device, dtype and pattern. Raises ValueError for others, and where no sparse layer has so many
    columns N.
    """
    sparse = rows[rows.format.ne("dense")]
    if N not in set(sparse.N):
        raise ValueError(f"N={N!r}: no row of a sparse layer; rows have {sorted(set(sparse.N))}")
    sparse = sparse[sparse.N.eq(N)]
    for column in ("device", "dtype", "pattern"):
        only(sparse, column)
    sparsities = sorted(sparse.sparsity.unique())
    titles = [f"{sparsity:.0%} sparsity" for sparsity in sparsities]
    fig = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True)
    fig.update_annotations(font={"size": 13, "color": INK})
    for col, sparsity in enumerate(sparsities, 1):
        part = sparse[sparse.sparsity.eq(sparsity)]
        for name, (time, dense, colour) in CALLS.items():
            fastest = _fastest(part, time)
            fig.add_bar(
                x=shapes(fastest), y=fastest[dense] / fastest[time], name=name, marker_color=colour,
                text=(fastest[dense] / fastest[time]).map("{:.1f}".format), textposition="outside",
                customdata=[[FORMATS[one.format].label, getattr(one, time), getattr(one, dense)]
                            for one in fastest.itertuples()],
                hovertemplate="%{x}, %{customdata[0]}: %{customdata[1]:.3g} µs, dense "
                "%{customdata[2]:.3g} µs<extra>" + name + "</extra>",
                legendgroup=name, showlegend=col == 1, row=1, col=col,
            )  # fmt: skip
        line_of_dense(fig, row=1, col=col)
    fig.update_xaxes(tickangle=-35)
    fig.update_yaxes(title="speed-up over torch.nn.Linear", rangemode="tozero", row=1, col=1)
    fig.update_layout(legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.12,
                              "yanchor": "bottom", "traceorder": "normal"})  # fmt: skip
    what = f"{sparse.device.iloc[0]}, {days(sparse)}, {sparse.dtype.iloc[0]}, N = {N}; "
    what += "of each bar the fastest format"
    return titled(fig, "Layers called by Python, and in a CUDA graph", what, height=460,
                  margin={"t": 130, "b": 90})  # fmt: skip


def _fastest(rows: pd.DataFrame, time: str) -> pd.DataFrame:
    """A row for each shape, smaller ones first."""
    by_size = rows.assign(size=rows.M * rows.K).sort_values(["size", "M", time])
    return by_size.drop_duplicates(["M", "K"])
