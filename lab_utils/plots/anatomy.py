"""Figures of notebook 31: what stages cost, and which units of the GPU a kernel keeps busy.

They take what `lab_utils.analysis.anatomy` makes of stored rows, all of one device and shape.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.analysis.anatomy import NOTHING
from lab_utils.plots.looks import FORMATS, KERNELS
from lab_utils.plots.rows import origin, single_case
from lab_utils.plots.style import INK, RING, below, titled

STAGE_COLOURS = {  # of one kind: one colour
    "gmem2reg": "#2563c4",
    "ld_sparse": "#2563c4",
    "ld_dense": "#0e8fa3",
    "rst_smem": "#8b46b8",
    "extract": "#d1391f",
    "decode": "#d1391f",
    "smem2tc": "#c98a00",
    NOTHING: "#5f6b7a",
}
DENSE_LABELS = {"cublas_mm": "cuBLAS"}


def kernel_label(kernel: str) -> str:
    """A kernel's name for readers."""
    return KERNELS[kernel].label if kernel in KERNELS else DENSE_LABELS.get(kernel, kernel)


def kernel_colour(kernel: str) -> str:
    return KERNELS[kernel].colour if kernel in KERNELS else FORMATS["dense"].colour


def stage_costs(costs: pd.DataFrame) -> go.Figure:
    """What each kernel saves without each stage, in % of its time: N along, a panel per sparsity.

    `costs` comes from `analysis.anatomy.stage_costs`.
    """
    kernels, sparsities = list(costs.kernel.unique()), sorted(costs.sparsity.unique())
    places = {(k, s): f"{kernel_label(k)}, {s:.0%} sparsity" for k in kernels for s in sparsities}
    fig = make_subplots(len(kernels), len(sparsities), shared_yaxes="all", vertical_spacing=0.16,
                        horizontal_spacing=0.04, subplot_titles=list(places.values()))  # fmt: skip
    shown: set[str] = set()
    for i, (kernel, sparsity) in enumerate(places):
        part = costs[costs.kernel.eq(kernel) & costs.sparsity.eq(sparsity)].sort_values("N")
        where = {"row": i // len(sparsities) + 1, "col": i % len(sparsities) + 1}
        for stage, rows in part.groupby("left_out", sort=False):
            fig.add_trace(_cost_bars(stage, rows, stage not in shown), **where)
            shown.add(stage)
        fig.update_xaxes(title="N" if where["row"] == len(kernels) else None, **where)
    fig.update_xaxes(type="category", showgrid=False, ticks="")
    fig.update_yaxes(tickformat=".0%", zeroline=True, zerolinecolor=INK)
    fig.update_yaxes(title="saved without the stage", col=1)
    fig.update_annotations(font={"size": 13, "color": INK})
    legend = {"orientation": "h", "x": 0, "y": -0.1, "yanchor": "top"}
    return titled(
        fig,
        "What each stage costs",
        f"{origin(costs)}; % of the whole kernel's time; hidden stages cost nothing",
        height=180 + 230 * len(kernels),
        margin={"t": 110, "b": 100},
        legend=legend,
    )


def stage_times(stages: pd.DataFrame) -> go.Figure:
    """Times of one case: each kernel whole, and without each stage, with ranges from p10 to p90.

    `stages` are rows of that table. Raises ValueError where they hold more than one case.
    """
    case = single_case(stages)
    rows = stages.iloc[::-1]
    parts = ["whole" if left == NOTHING else f"without {left}" for left in rows.left_out]
    names = [f"{kernel_label(k)} {part}" for k, part in zip(rows.kernel, parts, strict=True)]
    fig = go.Figure()
    fig.add_bar(
        x=rows.time_us,
        y=names,
        orientation="h",
        marker_color=rows.left_out.map(STAGE_COLOURS),
        error_x={"type": "data", "symmetric": False, "array": rows.p90_us - rows.time_us,
                 "arrayminus": rows.time_us - rows.p10_us, "thickness": 1.2, "width": 4},
        text=[f"<b>{us:,.0f} µs</b>" for us in rows.time_us],
        textposition="inside",
        insidetextanchor="start",
        textfont_color="white",
        hovertemplate="%{y}: %{x:,.1f} µs<extra></extra>",
    )  # fmt: skip
    fig.update_xaxes(title="time (µs)", rangemode="tozero")
    fig.update_yaxes(showgrid=False, ticks="")
    return titled(
        fig,
        f"Kernels without a stage: N = {case.N}, {case.sparsity:.0%} sparsity",
        f"{origin(rows)}; whiskers: p10 to p90",
        height=150 + 34 * len(rows),
        showlegend=False,
    )


def unit_use(use: pd.DataFrame, published: pd.DataFrame | None = None) -> go.Figure:
    """How busy each unit of the GPU was, in %: bars per kernel, a panel per N down.

    `use` comes from `analysis.anatomy.unit_use`; `published` has kernel, N, unit and percent, and
    becomes open circles on the bars of those kernels, whose numbers give way where they would meet.
    """
    columns = ["kernel", "N", "unit", "percent"]
    theirs = pd.DataFrame(columns=columns, dtype=float) if published is None else published
    Ns, units = sorted(use.N.unique()), list(use.unit.unique())
    pairs = use[["kernel", "sparsity"]].drop_duplicates().itertuples(index=False, name=None)
    series = sorted(pairs, key=lambda pair: pair[1] > 0)  # dense first
    plot = 215 * len(Ns) - 35  # pixels: 180 of each panel, 35 between them
    fig = make_subplots(len(Ns), 1, shared_xaxes=True, vertical_spacing=35 / plot,
                        subplot_titles=[f"N = {N}" for N in Ns])  # fmt: skip
    width, named = 0.82 / len(series), set()
    for panel, N in enumerate(Ns):
        where = {"row": panel + 1, "col": 1}
        for i, (kernel, sparsity) in enumerate(series):
            rows = use[use.kernel.eq(kernel) & use.sparsity.eq(sparsity) & use.N.eq(N)]
            if rows.empty:  # not profiled with so many columns
                continue
            offset = (i - (len(series) - 1) / 2) * width
            first = (kernel, sparsity) not in named
            named.add((kernel, sparsity))
            points = theirs[theirs.kernel.eq(kernel) & theirs.N.eq(N)].set_index("unit")
            fig.add_trace(_unit_bars(rows, points, units, offset, width, first), **where)
            if len(points):
                x = [units.index(unit) + offset for unit in points.index]
                fig.add_trace(_published(x, points), **where)
    labels = [unit.replace(" ", "<br>") for unit in units]
    fig.update_xaxes(tickvals=list(range(len(units))), ticktext=labels, tickangle=0, showgrid=False)
    if published is not None:  # in the legend, also where the first panel has none
        nowhere = published.iloc[:0]
        fig.add_trace(_published([None], nowhere).update(showlegend=True, y=[None]))
    fig.update_yaxes(range=[0, 110])
    fig.update_yaxes(title="% of peak")
    fig.update_annotations(font={"size": 13, "color": INK})
    sparse = {sparsity for _, sparsity in series if sparsity}
    return titled(
        fig,
        "How busy each unit is" + (f", {sparse.pop():.0%} sparsity" if len(sparse) == 1 else ""),
        origin(use),
        height=plot + 110 + 140,
        margin={"t": 110, "b": 140},
        legend=below(65, plot),
        barmode="overlay",
    )


def _cost_bars(stage: str, rows: pd.DataFrame, first: bool) -> go.Bar:
    return go.Bar(
        x=rows.N,
        y=rows.cost,
        name=stage,
        legendgroup=stage,
        showlegend=first,
        marker_color=STAGE_COLOURS[stage],
        customdata=np.column_stack([rows.cost_us, rows.whole_us]),
        hovertemplate=f"{stage}, N = %{{x}}: %{{y:.1%}}, %{{customdata[0]:.1f}} of "
        "%{customdata[1]:.1f} µs<extra></extra>",
    )


def _unit_bars(
    rows: pd.DataFrame,
    points: pd.DataFrame,
    units: list[str],
    offset: float,
    width: float,
    first: bool,
) -> go.Bar:
    percent = rows.set_index("unit").percent.reindex(units)
    above = points.percent.reindex(units) - percent
    kernel, sparsity = rows.kernel.iloc[0], rows.sparsity.iloc[0]
    name = kernel_label(kernel) + (f", {sparsity:.0%} sparsity" if sparsity else "")
    return go.Bar(
        x=np.arange(len(units)) + offset,
        y=percent,
        width=width * 0.92,
        name=name,
        legendgroup=name,
        showlegend=first,
        marker_color=kernel_colour(kernel),
        customdata=units,
        text=np.where(above.between(-3, 15), "", percent.map("{:.0f}".format)),
        textposition="outside",
        textfont_size=10,
        constraintext="none",
        hovertemplate=f"{name}: %{{customdata}} %{{y:.1f}} %<extra></extra>",
    )


def _published(x: list[float | None], points: pd.DataFrame) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=points.percent,
        mode="markers",
        marker=RING,
        name="published, A100",
        legendgroup="published",
        legendrank=2000,
        showlegend=False,
        hovertemplate="published: %{y:.1f} %<extra></extra>",
    )
