"""Flash-LLM's figures 3 and 12 from measured rows: every library against dense, line by line.

Rows have the columns of `results.COLUMNS["spmm"]` and are all of one GPU; the subtitle says which,
and when. Dense is always the best dense product of the same run. The paper's text gives few of
the values it plots; `published` is the table of data/published that holds those.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import label_ends, line_of_dense, line_of_means, ratio_axis
from lab_utils.plots.looks import KERNELS
from lab_utils.plots.rows import (
    geometric_means,
    of_gpu_kernels,
    only,
    origin,
    with_all,
)
from lab_utils.plots.style import MUTED, below, titled

# The kernel that rebuilds each of the paper's libraries, or stands for it.
KERNEL_OF = {
    "Flash-LLM": "tiled_csl_mma",
    "Sputnik": "csr_simt",
    "cuSPARSE": "cusparse",
    "SparTA": "sparta",
}
FIGURE_3 = (36864, 9216, 8)  # M, K, N of the paper's figure: its break-evens belong nowhere else
SYMBOLS = ("circle", "diamond", "square")  # of the break-evens that one library has
Y_TITLE = "speed-up over the best dense product"


def speedups_by_sparsity(rows: pd.DataFrame, published: pd.DataFrame) -> go.Figure:
    """Figure 3: one product with every library, as speed-up over dense, against sparsity.

    Dashed lines are kernels on SIMT cores. Open marks at 1×: where Flash-LLM's authors say that a
    library overtakes cuBLAS on their A100 (table spmm_break_even), if the product is theirs.
    Raises ValueError where the rows hold several shapes or several N.
    """
    N, M, K = (only(rows, column) for column in "NMK")
    theirs = (M, K, N) == FIGURE_3
    rows = of_gpu_kernels(rows)
    fig = make_subplots()
    line_of_dense(fig)
    height = ratio_axis(fig, rows.speedup)
    _add_kernels(fig, rows, "sparsity", "%{x:.0%}")
    label_ends(fig, _ends(rows, "sparsity", height))
    if theirs:
        _add_break_evens(fig, published)
    left = min(0.5, rows.sparsity.min())
    fig.update_xaxes(title="sparsity", tickformat=".0%", range=[left - 0.02, 1.0])
    return titled(
        fig,
        f"Every library on one product, N = {N}" + (" (Flash-LLM, figure 3)" if theirs else ""),
        f"{origin(rows)}; dashed: SIMT" + ("; open: break-even on an A100" if theirs else ""),
        **_layout(legend=theirs),
        legend=below(60, 321),
    )


def speedups_by_batch(rows: pd.DataFrame, published: pd.DataFrame) -> go.Figure:
    """Figure 12: speed-up over dense against N, up to where the product is no longer skinny.

    Lines are geometric means over the shapes, which remain as faint points: at each N that a kernel
    has all of its shapes of. The vertical line is where the paper says that Flash-LLM falls behind
    cuBLAS on its A100 (table spmm_break_even_n).
    Raises ValueError where the rows hold several sparsities.
    """
    sparsity = only(rows, "sparsity")
    rows = of_gpu_kernels(rows)
    fig = make_subplots()
    line_of_dense(fig)
    height = ratio_axis(fig, rows.speedup)
    _add_kernels(fig, rows, "N", "N = %{x}")
    label_ends(fig, _ends(rows, "N", height))
    _add_limits(fig, published)
    Ns = sorted(rows.N.unique())
    first, last = np.log2(Ns[0]), max(np.log2(Ns[-1]), 8)
    reach = np.array([first - 0.3, last + 0.3]) * np.log10(2)
    fig.update_xaxes(title="N", type="log", tickvals=Ns, range=reach)
    return titled(
        fig,
        f"More columns, {sparsity:.0%} sparsity (Flash-LLM, figure 12)",
        f"{origin(rows)}; dashed: SIMT",
        **_layout(),
    )


def _layout(legend: bool = False) -> dict:
    return {
        "height": 550 if legend else 500,
        "margin": {"t": 115, "r": 150, "b": 114 if legend else 64},
        "yaxis_title": Y_TITLE,
    }


def _add_kernels(fig: go.Figure, rows: pd.DataFrame, x: str, place: str) -> None:
    """A line per kernel through the geometric means, and a faint point for each shape."""
    for kernel, part in rows.groupby("kernel", sort=False):
        look = KERNELS[kernel]
        line = {"color": look.colour, "width": 2.5, "dash": "dash" if look.simt else "solid"}
        line_of_means(fig, part, _means(part, x), look.label, place, line, look.marker)


def _ends(
    rows: pd.DataFrame, x: str, height: Callable[[float], float]
) -> dict[str, tuple[float, str]]:
    """Label of each kernel -> height of the end of its line, and its colour."""
    ends = {}
    for kernel, part in rows.groupby("kernel", sort=False):
        for last in _means(part, x).iloc[-1:]:
            ends[KERNELS[kernel].label] = (height(last), KERNELS[kernel].colour)
    return ends


def _means(part: pd.DataFrame, x: str) -> pd.Series:
    """Geometric means of a kernel's rows: none of fewer shapes than others of its line."""
    whole = with_all(part, list(part[["M", "K"]].drop_duplicates().itertuples(index=False)))
    return geometric_means(whole, x, "speedup")


def _add_break_evens(fig: go.Figure, published: pd.DataFrame) -> None:
    """An open mark on the line of dense for each, named in the legend."""
    theirs = published[published.library.isin(KERNEL_OF) & published.baseline.eq("cuBLAS")]
    theirs = theirs.drop_duplicates(["library", "sparsity"])
    theirs = theirs.sort_values("sparsity")
    theirs = theirs.assign(rank=theirs.groupby("library").cumcount())
    for one in theirs.itertuples():
        colour = KERNELS[KERNEL_OF[one.library]].colour
        mark = {"symbol": SYMBOLS[one.rank], "size": 9, "color": "white",
                "line": {"color": colour, "width": 2}}  # fmt: skip
        fig.add_scatter(x=[one.sparsity], y=[1], mode="markers", marker=mark)
        where = f"{one.paper}, {one.table_or_figure}: {one.library} {one.claim} %{{x:.0%}}"
        name = f"{one.library} {one.sparsity:.0%}"
        fig.data[-1].update(name=name, showlegend=True, hovertemplate=f"{where}<extra></extra>")


def _add_limits(fig: go.Figure, published: pd.DataFrame) -> None:
    for one in published[published.library.isin(KERNEL_OF)].itertuples():
        fig.add_vline(x=one.N, line={"color": MUTED, "width": 1.2, "dash": "dot"})
        text = f"A100, as published: {one.library} {one.claim} N = {one.N}"
        fig.add_annotation(x=np.log10(one.N), y=1, yref="paper", text=text, font_color=MUTED)
        note = fig.layout.annotations[-1]
        note.update(showarrow=False, xanchor="right", yanchor="bottom", xshift=12)
