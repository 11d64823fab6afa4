"""The figure of notebook 23 that holds the emulator's counts against a profiler's."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lab_utils.analysis.agreement import COMPARED, LAUNCH, differences
from lab_utils.ladder import RUNGS
from lab_utils.plots.looks import FORMATS, KERNELS
from lab_utils.plots.rows import origin, single_case
from lab_utils.plots.style import INK, titled

REACH = 0.5  # half as many more or fewer have the strongest colour


def count_agreement(rows: pd.DataFrame) -> go.Figure:
    """How far ncu's counts are from the emulator's: launches by metrics, = where they are equal.

    `rows` are those of the table `counts`. Raises ValueError where they hold more than one case.
    """
    case = single_case(rows)
    off = _by_launch(rows)
    fig = go.Figure(_heat(off))
    fig.update_xaxes(side="top", tickangle=-50, showgrid=False, ticks="", showline=False)
    fig.update_yaxes(autorange="reversed", showgrid=False, ticks="", showline=False)
    equal = rows.emulator.eq(rows.ncu).sum()
    return titled(
        fig,
        f"ncu and the emulator agree in {equal} of {len(rows)} counts",
        f"{origin(rows)}, N = {case.N}, {case.sparsity:.0%} zeros; "
        "where not =, ncu has so many % more",
        height=225 + 27 * len(off),
        width=900,  # as wide as a page; narrower, its numbers would run into each other
        margin={"t": 205, "r": 60, "b": 20},
    )


def _by_launch(rows: pd.DataFrame) -> pd.DataFrame:
    """ncu / emulator - 1: a line for each launch, by its label, and a column for each metric."""
    lines = pd.MultiIndex.from_frame(rows[LAUNCH].drop_duplicates())
    columns = [metric for metric in COMPARED if metric in set(rows.metric)]
    off = differences(rows).reindex(index=lines, columns=columns)
    both = rows.emulator.gt(0) & rows.emulator.eq(rows.ncu)
    same = rows[both].pivot_table("ncu", LAUNCH, "metric", sort=False).reindex_like(off)
    off = off.mask(same.notna(), 0.0)
    return off.set_axis([_label(*line) for line in off.index.droplevel(0)], axis="index")


def _label(kernel: str, function: str, *case: object) -> str:
    """Kernel or rung and where rows are split; "sums", not a rung's title, where parts are added"""
    split_k, sums = case[-1], function == "add_partials"
    if kernel in KERNELS:
        name = f"<b>{KERNELS[kernel].label}</b>{' sums' if sums else ''}"
    else:
        number, title = RUNGS[kernel].label.split(" ", 1)
        name = f"{FORMATS[RUNGS[kernel].ladder].label} {number} {'sums' if sums else title}"
    return name + (f", rows in {split_k}" if split_k > 1 else "")


def _heat(off: pd.DataFrame) -> go.Heatmap:
    return go.Heatmap(
        z=off.clip(-REACH, REACH),
        x=list(off.columns),
        y=list(off.index),
        text=off.map(_cell),
        texttemplate="%{text}",
        textfont={"color": INK, "size": 10},
        colorscale=["#86b0ee", "#e3f2e9", "#e88d7a"],
        zmin=-REACH,
        zmax=REACH,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{y}: %{x} %{text}<extra></extra>",
    )


def _cell(off: float) -> str:
    if np.isnan(off):
        return ""
    if np.isinf(off):
        return "new"
    return f"{100 * off:+.{int(abs(off) < 0.095)}f}" if off else "="
