"""Which format is expected to be the fastest, by sparsity and columns, on several GPUs."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.analysis.checked import check_any
from lab_utils.backends.choosing import Expected, expected
from lab_utils.catalog import Device
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.style import INK, below, titled

NS = (1, 8, 16, 24, 32, 48, 64, 96, 128)
SPARSITIES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)


def fastest_formats(
    M: int,
    K: int,
    gpus: Sequence[Device],
    Ns: Sequence[int] = NS,
    sparsities: Sequence[float] = SPARSITIES,
) -> go.Figure:
    """The format with the least expected time for A [M, K], and its speed-up over dense.

    A panel for each GPU, columns of B across, sparsity up. Raises what `expected` does, and
    ValueError for an empty list.
    """
    check_any(gpus=gpus, Ns=Ns, sparsities=sparsities)
    best = [[[expected(M, K, N, s, gpu)[0] for N in Ns] for s in sparsities] for gpu in gpus]
    won = {one.format for table in best for row in table for one in row}
    names = [name for name in FORMATS if name in won]
    fig = make_subplots(1, len(gpus), subplot_titles=[gpu.title for gpu in gpus],
                        shared_yaxes=True, horizontal_spacing=0.04)  # fmt: skip
    fig.update_annotations(font={"size": 13, "color": INK})
    for col, table in enumerate(best, 1):
        fig.add_trace(_map(table, names, Ns, sparsities), row=1, col=col)
    for name in names:  # a heat map has no legend of its own
        marker = {"color": FORMATS[name].colour, "symbol": "square", "size": 12}
        fig.add_scatter(x=[None], y=[None], mode="markers", name=FORMATS[name].label, marker=marker)
    fig.update_xaxes(title="N", type="category", showgrid=False, ticks="")
    fig.update_yaxes(type="category", showgrid=False, ticks="")
    fig.update_yaxes(title="sparsity", row=1, col=1)
    what = f"{M}×{K}, expected speed-up over a dense product, of GPUs that have rested"
    return titled(fig, "Which format, when?", what, height=520,
                  margin={"t": 115, "b": 120}, legend=below(70, 340))  # fmt: skip


def _map(
    table: Sequence[Sequence[Expected]],
    names: Sequence[str],
    Ns: Sequence[int],
    sparsities: Sequence[float],
) -> go.Heatmap:
    """A field for each case, in the colour of its format, with its speed-up."""
    edges = np.repeat(np.arange(len(names) + 1) / len(names), 2)[1:-1]
    colours = np.repeat([FORMATS[name].colour for name in names], 2)
    return go.Heatmap(
        z=[[names.index(one.format) for one in row] for row in table],
        x=[str(N) for N in Ns],
        y=[f"{100 * sparsity:g}%" for sparsity in sparsities],
        text=[[f"{one.speedup:.2f}" for one in row] for row in table],
        customdata=[[FORMATS[one.format].label for one in row] for row in table],
        texttemplate="%{text}",
        textfont={"color": "white", "size": 11},
        colorscale=list(zip(edges, colours, strict=True)),
        zmin=-0.5,
        zmax=len(names) - 0.5,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{customdata}, N = %{x}, %{y}: %{text}×<extra></extra>",
    )
