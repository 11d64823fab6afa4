"""Figures of the memory planner: terms of a workload, table 1 of Flash-LLM, what fits where."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils import catalog
from lab_utils.analysis import memory as m
from lab_utils.analysis.checked import check_any
from lab_utils.analysis.gpu_products import obstacle
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.style import INK, MUTED, RING, below, titled

TERM_COLOURS = {
    "weights": "#2563c4",
    "tables": "#86b0ee",
    "cache": "#c98a00",
    "activations": "#178a5c",
    "workspace": "#8b46b8",
    "graphs": "#0e8fa3",
    "context": "#9aa3af",
}
CROSS = {"symbol": "x-thin", "size": 10, "line": {"color": "#d1391f", "width": 2.5}}


def workload_label(work: m.Workload) -> str:
    """Format and sparsity, as "TCA-BME 80 %"."""
    dense = work.format == "dense"
    return FORMATS[work.format].label + ("" if dense else f" {100 * work.sparsity:.0f} %")


def memory_terms(works: Sequence[m.Workload], device: catalog.Device) -> go.Figure:
    """What each workload needs on each of its GPUs, term by term, beside what the GPU has.

    All workloads are of one model, batch, prompt and output; a bar per format, sparsity and GPUs.
    Said are those that do not fit, and those whose format the GPU cannot multiply.
    """
    check_any(works=works)
    first, usable = works[0], m.usable_bytes(device) / 1e9
    names = [f"{workload_label(w)}, {_gpus(w.gpus)}" for w in works]
    fig = go.Figure()
    for term, colour in TERM_COLOURS.items():
        gb = [m.needs(work)[term] / 1e9 for work in works]
        fig.add_bar(x=gb, y=names, orientation="h", name=term, marker_color=colour)
        fig.data[-1].update(hovertemplate=f"%{{y}}, {term}: %{{x:.1f}} GB<extra></extra>")
    totals = [m.total(work) / 1e9 for work in works]
    for work, name, gb in zip(works, names, totals, strict=True):
        verdict = obstacle(work.format, device) or ("" if gb <= usable else "does not fit")
        fig.add_annotation(x=gb, y=name, text=f"<b>{gb:.1f}</b> {verdict}".rstrip())
    fig.update_annotations(showarrow=False, xanchor="left", xshift=6, bgcolor="white")
    fig.add_vline(x=usable, line={"color": INK, "width": 1.5, "dash": "dash"})
    fig.update_xaxes(title="10⁹ bytes per GPU", range=[0, 1.4 * max(*totals, usable)])
    fig.update_yaxes(showgrid=False, ticks="", autorange="reversed")
    return titled(
        fig,
        f"{first.model.name}, batch {first.batch}, {first.prompt} + {first.output} tokens",
        f"{device.title}; dashed: the {usable:.0f} · 10⁹ bytes that a program can have",
        barmode="stack",
        height=90 + 42 * len(works) + 130,
        margin={"t": 90, "b": 130},
        legend=below(60, 42 * len(works)) | {"traceorder": "normal"},
    )


def peak_memory(published: pd.DataFrame, model: str = "OPT-30B") -> go.Figure:
    """Flash-LLM's table 1: printed peaks, in GiB over all GPUs, on what the planner expects.

    `published` is table flash_llm_peak_memory. Pruned models keep the outer quarters of fc1 dense.
    """
    of_batches = published.dropna(subset="batch")
    rows = of_batches[of_batches.model.eq(model)]
    if rows.empty:
        allowed = ", ".join(of_batches.model.unique())
        raise ValueError(f"model={model!r}: no published peak; allowed: {allowed}")
    rows = rows.assign(system=rows.system + ", " + rows.gpus.map(_gpus))
    systems = list(rows.system.unique())
    titles = [name.replace(", ", "<br>") for name in systems]
    fig = make_subplots(cols=len(systems), shared_yaxes=True, horizontal_spacing=0.02,
                        subplot_titles=titles)  # fmt: skip
    for column, system in enumerate(systems, 1):
        _add_system(fig, rows[rows.system.eq(system)], first=column == 1, row=1, col=column)
    fig.update_xaxes(title="batch", type="category", showgrid=False)
    fig.update_yaxes(title="GiB, all GPUs together", col=1)
    fig.update_annotations(font={"size": 12, "color": INK})
    return titled(
        fig,
        f"Peak memory of {model}: the planner and table 1 of Flash-LLM",
        "A100 80 GB; circles and crosses: as published; dotted: what the GPUs have",
        barmode="stack",
        height=540,
        margin={"t": 130, "b": 140},
        legend=below(60, 270) | {"traceorder": "normal"},
    )


def largest_batches(answers: pd.DataFrame) -> go.Figure:
    """The largest batch that fits: models down, formats across; a panel per device.

    `answers` are rows of `analysis.memory.answers`, of one number of GPUs. A format that a device
    cannot multiply has a dash there.
    """
    if answers.empty:
        raise ValueError("answers hold no row")
    first, refused = answers.iloc[0], answers.obstacle.ne("")
    labels = [f"{FORMATS[f].label} {s:.0%}" if f != "dense" else FORMATS[f].label
              for f, s in zip(answers.format, answers.sparsity, strict=True)]  # fmt: skip
    labels = [label.replace(" ", "<br>") for label in labels]
    shown = answers.largest_batch.astype(str).mask(refused, "–")
    rows, devices = answers.assign(label=labels, shown=shown), list(answers.device.unique())
    models, names = list(rows.model.unique()), list(rows.label.unique())
    fig = make_subplots(cols=len(devices), shared_yaxes=True, horizontal_spacing=0.03,
                        subplot_titles=devices)  # fmt: skip
    for column, device in enumerate(devices, 1):
        tables = rows[rows.device.eq(device)].pivot(index="model", columns="label").loc[models]
        heat = _batch_heat(tables.largest_batch[names], tables.shown[names])
        fig.add_trace(heat, row=1, col=column)
    fig.update_xaxes(showgrid=False, ticks="", tickfont={"size": 11}, tickangle=0)
    fig.update_yaxes(showgrid=False, ticks="", autorange="reversed")
    fig.update_annotations(font={"size": 13, "color": INK})
    return titled(
        fig,
        f"The largest batch that fits on {_gpus(first.gpus)}",
        f"prompt {first.prompt}, output {first.output}; white: not even one sequence"
        + ("; –: no kernel for that GPU" if refused.any() else ""),
        height=190 + 44 * len(models),
        margin={"t": 110},
    )


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _expected(row: tuple) -> dict[str, float]:
    """GiB over all GPUs that the planner expects of a published row, by term."""
    model = catalog.model(row.model)
    weights = {"format": "dense", "sparsity": 0.0}
    if row.sparsity:
        weights = {"format": "tiled_csl", "sparsity": row.sparsity, "dense": m.outer_fc1(model)}
    work = m.Workload(model, **weights, batch=int(row.batch), gpus=row.gpus)
    return {term: work.gpus * nbytes / m.GIB for term, nbytes in m.needs(work).items()}


def _add_system(fig: go.Figure, rows: pd.DataFrame, first: bool, **where: int) -> None:
    x = [str(int(batch)) for batch in rows.batch]
    terms = pd.DataFrame([_expected(row) for row in rows.itertuples()])
    for term, colour in TERM_COLOURS.items():
        fig.add_bar(x=x, y=terms[term], name=term, marker_color=colour, opacity=0.85, **where)
        fig.data[-1].update(legendgroup=term, showlegend=first)
        fig.data[-1].hovertemplate = f"batch %{{x}}, {term}: %{{y:.1f}} GiB<extra></extra>"
    fits = rows.status.eq("ok").to_numpy()
    expected = terms.sum(axis="columns").to_numpy()
    marks = [("published", RING, fits, rows.peak_gb), ("out of memory", CROSS, ~fits, expected)]
    for name, marker, chosen, y in marks:
        points = {"x": np.array(x)[chosen], "y": np.asarray(y)[chosen]}
        fig.add_scatter(**points, mode="markers", marker=marker, name=name, **where)
        fig.data[-1].update(legendgroup=name, showlegend=first)
        fig.data[-1].hovertemplate = f"batch %{{x}}, {name}: %{{y:.1f}} GiB<extra></extra>"
    limit = 80 * int(rows.gpus.iloc[0])
    fig.add_hline(y=limit, line={"color": MUTED, "width": 1.5, "dash": "dot"}, **where)


def _batch_heat(table: pd.DataFrame, shown: pd.DataFrame) -> go.Heatmap:
    return go.Heatmap(
        z=np.log2(table.where(table > 0)),
        x=table.columns,
        y=table.index,
        text=shown,
        texttemplate="%{text}",
        textfont={"color": INK},
        colorscale=["#eef4fd", "#86b0ee"],
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{y}, %{x}: batch %{text}<extra></extra>",
    )
