"""Flash-LLM's figure 9 from measured rows: the throughput of every shape, and its averages.

Rows have the columns of `results.COLUMNS["spmm"]` and are all of one GPU; the subtitle says which,
and when.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.libraries import KERNEL_OF
from lab_utils.plots.looks import KERNELS
from lab_utils.plots.rows import geometric_means, of_gpu_kernels, origin, shapes
from lab_utils.plots.style import INK, RING, below, titled
from lab_utils.results import CASE

FLASH_LLM = KERNEL_OF["Flash-LLM"]
DENSE_TICK = {"symbol": "line-ns", "size": 13, "line": {"color": "black", "width": 2.5}}


def throughputs(rows: pd.DataFrame) -> go.Figure:
    """Figure 9: TFLOP/s (2·M·N·K ÷ time) of every kernel and shape; panels are N by sparsity.

    The black tick is the best dense product of the same run.
    """
    rows = of_gpu_kernels(rows)
    Ns, sparsities = sorted(rows.N.unique()), sorted(rows.sparsity.unique())
    names = shapes(rows.sort_values(["M", "K"])).unique()
    panel = 20 * len(names) + 30  # pixels
    gap, inside = 48, len(Ns) * panel + (len(Ns) - 1) * 48
    fig = make_subplots(
        rows=len(Ns),
        cols=len(sparsities),
        shared_yaxes=True,
        horizontal_spacing=0.07,
        vertical_spacing=gap / inside if len(Ns) > 1 else 0,
        column_titles=[f"{s:.0%} sparsity" for s in sparsities],
    )
    named: set[str] = set()  # in the legend; the first panel may lack a kernel
    for i, j in np.ndindex(len(Ns), len(sparsities)):
        part = rows[rows.N.eq(Ns[i]) & rows.sparsity.eq(sparsities[j])]
        _add_kernels(fig, part, named, row=i + 1, col=j + 1)
    fig.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], ticks="")
    for i, N in enumerate(Ns, 1):
        part = rows[rows.N == N]
        top = 1.08 * max(part.tflops.max(), _dense_tflops(part).max())
        fig.update_xaxes(range=[0, top], row=i)
        fig.update_yaxes(title=f"<b>N = {N}</b>", row=i, col=1)
    fig.update_xaxes(title="TFLOP/s", row=len(Ns))
    fig.update_annotations(font={"size": 13, "color": INK})
    return titled(
        fig,
        "Throughput of every shape (Flash-LLM, figure 9)",
        f"{origin(rows)}; black tick: the best dense product",
        height=inside + 110 + 140,
        margin={"t": 110, "b": 140},  # the legend takes four lines where the window is narrow
        legend=below(60, inside),
    )


def average_speedups(rows: pd.DataFrame, published: pd.DataFrame) -> go.Figure:
    """The averages of figure 9: Tiled-CSL against dense and each library, by sparsity.

    Bars are geometric means over the shapes and N of `rows`; open circles are the paper's averages
    on its A100 (table flash_llm_kernel_speedup).
    """
    ours = _against_libraries(of_gpu_kernels(rows))
    names = [name for name in ("cuBLAS", "Sputnik", "SparTA", "cuSPARSE") if name in ours]
    titles = ["best dense" if name == "cuBLAS" else _title(name) for name in names]
    fig = make_subplots(cols=len(names), horizontal_spacing=0.06, subplot_titles=titles)
    for column, name in enumerate(names, 1):
        printed = published[published.baseline.eq(name)].dropna(subset="sparsity")
        part = ours[[name]].dropna().set_axis(["ours"], axis="columns")
        part["published"] = printed.set_index("sparsity").speedup
        _add_averages(fig, part, first=column == 1, row=1, col=column)
    fig.update_xaxes(title="sparsity", type="category", showgrid=False)
    fig.update_yaxes(title="speed-up of Tiled-CSL", col=1)
    fig.update_annotations(font={"size": 13, "color": INK})
    return titled(
        fig,
        "Tiled-CSL against each library (averages of figure 9)",
        f"{origin(rows)}; in brackets: as published, on an A100",
        height=420,
        margin={"t": 130},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.12, "yanchor": "bottom"},
    )


def _title(library: str) -> str:
    label = KERNELS[KERNEL_OF[library]].label
    return label if label == library else f"{label} ({library})"


def _add_kernels(fig: go.Figure, rows: pd.DataFrame, named: set[str], row: int, col: int) -> None:
    dense = rows.assign(tflops=_dense_tflops(rows)).drop_duplicates(["M", "K"])
    looks = [(part, KERNELS[name].label, KERNELS[name].marker)
             for name, part in rows.groupby("kernel", sort=False)]  # fmt: skip
    for part, name, marker in [(dense, "best dense", DENSE_TICK), *looks]:
        fig.add_scatter(x=part.tflops, y=shapes(part), mode="markers", marker=marker,
                        row=row, col=col)  # fmt: skip
        hover = f"%{{y}}, {name}: %{{x:.1f}} TFLOP/s<extra></extra>"
        first = name not in named and not part.empty
        fig.data[-1].update(name=name, legendgroup=name, showlegend=first, hovertemplate=hover)
        if first:
            named.add(name)


def _dense_tflops(rows: pd.DataFrame) -> pd.Series:
    return 2 * rows.M * rows.K * rows.N / rows.dense_us / 1e6


def _against_libraries(rows: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean, by sparsity, of Tiled-CSL's speed-up over each library, a column each."""
    ours = rows[rows.kernel.eq(FLASH_LLM)].set_index([*CASE])
    over = {"cuBLAS": geometric_means(ours.reset_index(), "sparsity", "speedup")}
    for library, kernel in KERNEL_OF.items():
        theirs = rows[rows.kernel.eq(kernel)].set_index([*CASE]).time_us
        ratio = (theirs / ours.time_us).rename("ratio").dropna().reset_index()
        if kernel != FLASH_LLM and len(ratio):
            over[library] = geometric_means(ratio, "sparsity", "ratio")
    return pd.DataFrame(over)


def _add_averages(fig: go.Figure, part: pd.DataFrame, first: bool, row: int, col: int) -> None:
    place, x = {"row": row, "col": col}, [f"{s:.0%}" for s in part.index]
    fig.add_bar(x=x, y=part.ours, marker_color=KERNELS[FLASH_LLM].colour, opacity=0.9, **place)
    fig.data[-1].update(name="measured", legendgroup="measured", showlegend=first)
    fig.add_scatter(x=x, y=part.published, mode="markers", marker=RING, **place)
    fig.data[-1].update(name="published", legendgroup="published", showlegend=first)
    labels = [f"<b>{ours:.2f}</b>" + ("" if np.isnan(theirs) else f"<br>({theirs:.1f})")
              for ours, theirs in zip(part.ours, part.published, strict=True)]  # fmt: skip
    top = part.max(axis=1)
    fig.add_scatter(x=x, y=top, mode="markers+text", text=labels, **place)
    fig.data[-1].update(textposition="top center", showlegend=False, hoverinfo="skip")
    fig.data[-1].marker = {"size": 9, "opacity": 0}  # keeps the text clear of the ring
    fig.update_yaxes(range=[0, 1.3 * top.max()], **place)
