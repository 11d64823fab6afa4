"""Geometric means over OPT's matrices, beside those of the published kernels' own code."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.looks import KERNELS
from lab_utils.plots.rows import geometric_means, of_gpu_kernels, origin, with_all
from lab_utils.plots.style import DIVERGING, INK, titled

# The originals, in table h200_peers, that each kernel is held against; MACKO is for N = 1 only.
ORIGINALS = {"tiled_csl_mma": ("Flash-LLM", "MACKO"), "tca_bme_mma": ("SpInfer", "MACKO")}
LEGEND = "; (original code); bold: at least as fast"
BLANK = "; blank: not measured with all matrices"
GAP = 95  # pixels between lines of panels
REACH = 1.5  # of the colours: 2 ** 1.5 times as fast as dense, or as slow


def speedup_table(
    rows: pd.DataFrame, published: pd.DataFrame, matrices: Sequence[tuple[int, int]]
) -> go.Figure:
    """Mean speed-up over dense, a panel per kernel, sparsity down and N across.

    In brackets, from `published` (table h200_peers), what the original's own code reached on the
    same matrices and kind of GPU; bold where ours is at least as fast.
    A kernel that lacks one of the matrices (M, K) has no mean there, and a blank; raises ValueError
    where none has all of them.
    """
    rows = with_all(rows, matrices)
    if rows.empty:
        raise ValueError(f"rows hold no kernel with all of the {len(matrices)} matrices")
    means = geometric_means(of_gpu_kernels(rows), ["kernel", "sparsity", "N"], "speedup")
    means = means.unstack(["sparsity", "N"])  # a line per kernel
    kernels = [name for name in KERNELS if name in means.index]
    lines = -(-len(kernels) // 2)
    titles = [_title(name, one=bool(rows.N.eq(1).any())) for name in kernels]
    inside = 40 * rows.sparsity.nunique() * lines + GAP * (lines - 1)  # pixels
    fig = make_subplots(
        rows=lines, cols=min(2, len(kernels)), subplot_titles=titles,
        horizontal_spacing=0.08, vertical_spacing=GAP / inside if lines > 1 else 0,
    )  # fmt: skip
    for i, kernel in enumerate(kernels):
        where = {"row": i // 2 + 1, "col": i % 2 + 1}
        fig.add_trace(_heat(means.loc[kernel], kernel, published), **where)
    category = {"type": "category", "showgrid": False, "ticks": ""}
    fig.update_xaxes(title="N", **category)
    fig.update_yaxes(**category, autorange="reversed")
    fig.update_yaxes(title="sparsity", col=1)
    fig.update_annotations(font={"size": 13, "color": INK})
    blank = any((trace.text == "").any() for trace in fig.data)
    return titled(
        fig,
        f"{_whose(kernels)}: speed-up over dense",
        f"{origin(rows)}; geometric means over matrices of OPT"
        + (LEGEND if ORIGINALS.keys() & kernels else "")
        + BLANK * blank,
        height=inside + 110 + 64,
        margin={"t": 110},
    )


def _whose(kernels: Sequence[str]) -> str:
    rebuilt = ORIGINALS.keys() & kernels
    if not rebuilt:
        return "Our kernels for Hopper"
    return "Published kernels, rebuilt" if len(rebuilt) == len(kernels) else "All kernels"


def _title(kernel: str, one: bool) -> str:
    label = KERNELS[kernel].label
    if kernel not in ORIGINALS:
        return label
    original, at_one = ORIGINALS[kernel]
    return f"{label} ({original}; at N = 1 {at_one})" if one else f"{label} ({original})"


def _heat(means: pd.Series, kernel: str, published: pd.DataFrame) -> go.Heatmap:
    """`means`: those of one kernel, by sparsity and N."""
    table = means.unstack("N")
    theirs = published[published.kernel.isin(ORIGINALS.get(kernel, ()))]
    theirs = theirs.pivot_table("speedup_over_dense", "sparsity", "N").reindex_like(table)
    return go.Heatmap(
        z=np.log2(table),
        x=[str(N) for N in table.columns],
        y=[f"{sparsity:.0%}" for sparsity in table.index],
        text=np.vectorize(_cell, otypes=[object])(table, theirs),
        texttemplate="%{text}",
        textfont={"color": INK, "size": 12},
        colorscale=DIVERGING,
        zmin=-REACH,
        zmax=REACH,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{y}, N = %{x}: %{text}<extra></extra>",
    )  # fmt: skip


def _cell(ours: float, original: float) -> str:
    if np.isnan(ours):
        return ""
    if np.isnan(original):
        return f"{ours:.2f}"
    text = f"<b>{ours:.2f}</b>" if round(ours, 2) >= original else f"{ours:.2f}"
    return f"{text}<br>({original:.2f})"
