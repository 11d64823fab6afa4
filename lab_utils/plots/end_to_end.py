"""Flash-LLM's figures 13 to 16 from rows of `opt`: throughput and time of whole generations.

Rows have the columns of `results.COLUMNS["opt"]`, one device's last runs; there may be none, and
the figures then hold what is published and say so. Published tables come from data/published.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.generations import (
    labels_of,
    names_of,
    on_cpu,
    origin_of,
)
from lab_utils.plots.looks import FORMATS, MODELS, TRANSFORMERS
from lab_utils.plots.style import INK, MUTED, below, titled

PUBLISHED = {  # how a system is drawn: symbol, colour
    "Flash-LLM": ("circle", FORMATS["tiled_csl"].colour),
    "FasterTransformer": ("square", "#111827"),
    "DeepSpeed": ("diamond", "#8b46b8"),
}
FIGURES = {
    "OPT-30B": ("fig. 13", "fig. 14a"),
    "OPT-66B": ("fig. 15", "fig. 14b"),
    "OPT-175B": ("fig. 16a", "fig. 16b"),
}
PARTS = {
    "matmul_s": ("MatMul", "#2563c4"),
    "attention_s": ("attention", "#c98a00"),
    "communication_s": ("communication", "#8b46b8"),
    "other_s": ("other", "#9aa3af"),
}
GPUS = [("solid", "circle"), ("dash", "triangle-up"), ("dot", "star")]  # lines of 1, 2, and more
BEST = "best"  # beside the batches: each side at its own best one


def generation_throughput(
    rows: pd.DataFrame, throughput: pd.DataFrame, speedup: pd.DataFrame, model: str
) -> go.Figure:
    """Figures 13, 15 and 16a: tokens per GPU-second by batch, and speed-up over dense.

    Lines are measured, pale ones with fewer zeros than others; the speed-up is over our dense
    decoder at the same batch, on the number of GPUs where it has most tokens per GPU-second. At
    "best" stands one mark for each sparsity that was measured with as many sequences as dense
    weights have at their best: the best of all formats, batches and numbers of GPUs. Open marks are
    published, on A100s: tables flash_llm_throughput and flash_llm_end_to_end. Left, a mark without
    a known batch lies at "best". Raises ValueError for rows of several dtypes.
    """
    rows = rows[rows.model.eq(model)]
    if rows.dtype.nunique() > 1:
        raise ValueError(f"rows of {', '.join(sorted(rows.dtype.unique()))}; allowed: one dtype")
    rows = rows.assign(best=_is_best(rows))
    fig = make_subplots(
        cols=2, horizontal_spacing=0.1,
        subplot_titles=["tokens per GPU-second", "speed-up over dense, per GPU"],
    )  # fmt: skip
    _add_published(fig, throughput[throughput.model.eq(model)], speedup[speedup.model.eq(model)])
    for name, part in _series(rows):
        by_batch, sparsity = _with_best(part), part.sparsity.iloc[0]
        look = _look(part) | {"opacity": 0.45 if 0 < sparsity < rows.sparsity.max() else 1}
        _add_line(fig, name, look, by_batch, col=1)
        if part.format.iloc[0] not in ("dense", TRANSFORMERS):
            _add_line(fig, name, look, _over_dense(rows, by_batch), col=2)
    _batch_axes(fig)
    return titled(
        fig,
        _title(model, "tokens", 0),
        f"{origin_of(rows, model)}; open: as published, A100",
        height=560,
        margin={"t": 110, "b": 190},
        legend=below(60, 260),
    )


def time_breakdown(rows: pd.DataFrame, model: str) -> go.Figure:
    """Figures 14 and 16b: GPU-seconds of a generation by part, a bar per batch, format and GPUs.

    Bars of one batch stand together: only those are of the same number of tokens. The paper's
    figures have no printed values to put beside. Raises ValueError where no row of the model has a
    breakdown.
    """
    rows = rows[rows.model.eq(model)].dropna(subset=list(PARTS))
    if rows.empty:
        raise ValueError(f"model={model!r}: no row with a breakdown")
    rows = rows.sort_values(["batch", "sparsity", "format", "gpus"])
    names = labels_of(rows)
    fig = go.Figure()
    for column, (label, colour) in PARTS.items():
        seconds = rows.gpus * rows[column]
        fig.add_bar(x=seconds, y=names, orientation="h", name=label, marker_color=colour)
        fig.data[-1].hovertemplate = f"%{{y}}, {label}: %{{x:.3g}} s<extra></extra>"
    parts = rows[list(PARTS)].clip(lower=0).sum(axis=1)  # timed apart, they may exceed the whole
    ends = rows.gpus * parts.where(parts > rows.seconds, rows.seconds)
    for name, end, seconds in zip(names, ends, rows.gpus * rows.seconds, strict=True):
        fig.add_annotation(x=end, y=name, text=f"<b>{seconds:#.3g} s</b>")
    fig.update_annotations(showarrow=False, xanchor="left", xshift=6)
    lowest = (rows.gpus * rows[list(PARTS)].clip(upper=0).sum(axis=1)).min()
    unit = "seconds" if on_cpu(rows) else "GPU-seconds"
    fig.update_xaxes(title=unit, range=[min(0, 1.15 * float(lowest)), 1.15 * float(ends.max())])
    fig.update_yaxes(showgrid=False, ticks="", autorange="reversed")
    return titled(
        fig,
        _title(model, "time by part", 1),
        origin_of(rows, model) + ("" if on_cpu(rows) else "; seconds of all GPUs added"),
        barmode="relative",
        height=190 + 34 * len(rows),
        margin={"t": 125},
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "traceorder": "normal"},
    )


# --- what the figures share --------------------------------------------------------------------


def _title(model: str, what: str, which: int) -> str:
    figure = f" (Flash-LLM, {FIGURES[model][which]})" if model in FIGURES else ""
    return f"{model}: {what}{figure}"


def _series(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each line, by its name, in order of batch."""
    rows = rows.assign(series=names_of(rows)).sort_values(["sparsity", "gpus", "batch"])
    return list(rows.groupby("series", sort=False))


def _is_best(rows: pd.DataFrame) -> pd.Series:
    """Whether no other row of its side has more tokens per GPU-second.

    No row of a sparsity that was measured with fewer sequences for each GPU than dense weights have
    at their best: of that, its own best one is not known.
    """
    side = [rows.format.eq(TRANSFORMERS), rows.sparsity]
    rates, each = rows.tokens_per_gpu_second, rows.batch / rows.gpus
    best = rates.eq(rates.groupby(side).transform("max"))
    of_dense = each[best & rows.format.eq("dense")].min()
    few = each.groupby(side).transform("max").lt(of_dense) & rows.sparsity.gt(0)
    return best & ~few


def _with_best(rows: pd.DataFrame) -> pd.Series:
    """Tokens per GPU-second by batch, and at "best" where a row is its side's best."""
    marked = pd.concat([rows, rows[rows.best].assign(batch=BEST)])
    return marked.set_index("batch").tokens_per_gpu_second.rename(index=str)


def _over_dense(rows: pd.DataFrame, by_batch: pd.Series) -> pd.Series:
    """Ratio to the best of our dense decoder at each batch, where it has one."""
    dense = _with_best(rows[rows.format.eq("dense")]).groupby(level=0).max()
    return (by_batch / dense.reindex(by_batch.index)).dropna()


def _look(rows: pd.DataFrame) -> dict:
    """Marker and line of one format on one number of GPUs."""
    dash, symbol = GPUS[min(int(np.log2(rows.gpus.iloc[0])), len(GPUS) - 1)]
    colour = MODELS[rows.format.iloc[0].split("+")[0]].colour
    return {
        "marker": {"color": colour, "symbol": symbol, "size": 9},
        "line": {"color": colour, "width": 2.5, "dash": dash},
    }


def _add_line(fig: go.Figure, name: str, look: dict, y: pd.Series, col: int) -> None:
    """A line over the batches, and a mark at "best"."""
    at_best = y.index == BEST
    for part, mode in ((y[~at_best], "lines+markers"), (y[at_best], "markers")):
        fig.add_scatter(x=part.index, y=part, mode=mode, **look,
                        name=name, legendgroup=name, row=1, col=col)  # fmt: skip
        fig.data[-1].update(showlegend=col == 1 and mode != "markers", legendrank=1)
        fig.data[-1].hovertemplate = f"{name}, batch %{{x}}: %{{y:.4g}}<extra></extra>"


def _add_published(fig: go.Figure, throughput: pd.DataFrame, speedup: pd.DataFrame) -> None:
    """Open marks of the paper, those on more GPUs than Flash-LLM with a dot."""
    ratios = speedup.assign(system=speedup.baseline, gpus=speedup.baseline_gpus, y=speedup.speedup)
    rows = pd.concat([throughput.assign(y=throughput.tokens_per_gpu_second, col=1),
                      ratios.assign(col=2)])  # fmt: skip
    flash_llm = speedup.gpus.min()
    for (system, gpus), of_system in rows.groupby(["system", "gpus"], sort=False):
        symbol, colour = PUBLISHED[system]
        dot = "-dot" if gpus > flash_llm else ""
        marker = {"symbol": f"{symbol}-open{dot}", "size": 11, "color": colour, "line_width": 2}
        name = f"{system}, {gpus} A100" + "s" * (gpus > 1)
        ratio = f"Flash-LLM over {name}"
        shown = ratio if of_system.col.eq(2).all() else name
        for number, (col, part) in enumerate(of_system.groupby("col")):
            fig.add_scatter(x=_places(part), y=part.y, mode="markers", marker=marker, name=shown,
                            legendgroup=shown, showlegend=not number, row=1, col=col)  # fmt: skip
            said = name if col == 1 else ratio
            fig.data[-1].hovertemplate = f"{said}, batch %{{x}}: %{{y:.4g}}<extra></extra>"


def _places(rows: pd.DataFrame) -> list[str]:
    return [BEST if np.isnan(batch) else f"{batch:.0f}" for batch in rows.batch]


def _batch_axes(fig: go.Figure) -> None:
    shown = {batch for trace in fig.data for batch in trace.x} - {BEST}
    order = [*sorted(shown, key=int), BEST]
    fig.update_xaxes(title="batch", type="category", categoryorder="array", categoryarray=order)
    fig.update_xaxes(range=[-0.5, len(order) - 0.5])
    fig.update_yaxes(rangemode="tozero")
    fig.add_hline(y=1, line={"color": MUTED, "width": 1.5, "dash": "dash"}, row=1, col=2)
    if not any(trace.xaxis == "x" for trace in fig.data):
        fig.add_scatter(x=order, y=[0] * len(order), mode="markers", marker_opacity=0, row=1, col=1)
        fig.data[-1].update(showlegend=False, hoverinfo="skip")
        fig.add_annotation(x=BEST, y=0.5, yref="y domain", text="the paper prints no values")
        fig.layout.annotations[-1].update(xanchor="right", showarrow=False, font_color=MUTED)
        fig.update_yaxes(showticklabels=False, col=1)
    fig.update_annotations(font={"size": 13, "color": INK})
