"""Figures of notebook 24 on whole matrices: bytes, bank conflicts, bounds, and the trials."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import label_ends, line_of_dense, ratio_axis
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.style import INK, MUTED, below, titled

OURS = FORMATS["zero_row_24"].colour
ENCODINGS = {  # colour, dash
    "dense": (FORMATS["dense"].colour, "solid"),
    "Tiled-CSL": (FORMATS["tiled_csl"].colour, "solid"),
    "TCA-BME": (FORMATS["tca_bme"].colour, "solid"),
    "zero-row 2:4, pairs": (OURS, "dot"),
    "zero-row 2:4, packed": (OURS, "solid"),
    "zero-row 2:4, nested": (OURS, "longdash"),
    "zero-row 2:4, sixes": (OURS, "dash"),
    "zero-row strips": (FORMATS["zero_row_24_strips"].colour, "solid"),
}
DASHES = {"solid": "──", "dot": "····", "longdash": "— —", "dash": "- - -"}  # beside names of lines
STREAMS = {
    "packed": ("solid", "circle"), "pairs": ("dot", "square"),
    "nested": ("longdash", "cross"), "sixes": ("dash", "diamond"),
}  # fmt: skip
ORDERS = {"plain order": MUTED, "placed": OURS}
TRIALS = {  # of tables h200_peers and h200_zero_row_24_trial
    "Flash-LLM": (FORMATS["tiled_csl"].colour, "solid"),
    "SpInfer": (FORMATS["tca_bme"].colour, "solid"),
    "trial, mma.sp": (OURS, "solid"),
    "trial, wgmma.sp": (OURS, "dot"),
}
SHORT = {"trial, mma.sp": "mma.sp", "trial, wgmma.sp": "wgmma.sp"}


def encoded_bytes(formulas: pd.DataFrame, further: pd.Series, encoded: pd.DataFrame) -> go.Figure:
    """Bytes for 64 weights by sparsity, and how many chunks zero-row 2:4 adds to regular ones.

    `formulas` and `further` are those of `analysis.hopper_budget`; `encoded`, of real encodings,
    has columns sparsity, bytes and further.
    """
    titles = ("bytes for 64 weights", "further chunks, of regular ones")
    fig = make_subplots(2, 1, subplot_titles=titles, vertical_spacing=0.12, shared_xaxes=True,
                        row_heights=[0.64, 0.36])  # fmt: skip
    for name, (colour, dash) in ENCODINGS.items():
        fig.add_scatter(x=formulas.index, y=formulas[name], name=name, mode="lines",
                        line={"color": colour, "dash": dash}, row=1, col=1)  # fmt: skip
    fig.add_scatter(x=further.index, y=further, mode="lines", name="further chunks",
                    line_color=OURS, row=2, col=1)  # fmt: skip
    for row, column in ((1, "bytes"), (2, "further")):
        fig.add_scatter(x=encoded.sparsity, y=encoded[column], mode="markers", name="encoded",
                        marker={"color": OURS, "size": 7}, row=row, col=1)  # fmt: skip
    top = 1.08 * formulas["dense"].max()
    ends = formulas.iloc[-1] / top
    label_ends(fig, {f"{DASHES[dash]} {name}": (ends[name], colour)
                     for name, (colour, dash) in ENCODINGS.items()})  # fmt: skip
    fig.update_annotations(font_size=13)
    fig.update_xaxes(tickformat=".0%")
    fig.update_xaxes(title="sparsity", row=2)
    fig.update_yaxes(range=[0, top], row=1, col=1)
    fig.update_yaxes(tickformat=".0%", rangemode="tozero", row=2, col=1)
    return titled(fig, "What the index costs", "lines: formulas; points: encoded by this machine",
                  showlegend=False, height=640, margin={"t": 110, "r": 220})  # fmt: skip


def gather_wavefronts(counted: pd.DataFrame) -> go.Figure:
    """Shared-memory wavefronts of one load: columns sparsity, streams, order, wavefronts."""
    fig = go.Figure()
    for (streams, order), rows in counted.groupby(["streams", "order"], sort=False):
        dash, symbol = STREAMS[streams]
        fig.add_scatter(x=rows.sparsity, y=rows.wavefronts, name=f"{streams}, {order}",
                        mode="lines+markers", marker_symbol=symbol,
                        line={"color": ORDERS[order], "dash": dash},
                        hovertemplate="%{x:.0%}: %{y:.2f}")  # fmt: skip
    fig.add_hline(y=1, line={"color": INK, "dash": "dash", "width": 1.5})
    fig.update_xaxes(title="sparsity", tickformat=".0%")
    fig.update_yaxes(title="wavefronts of a load", range=[0.9, 1.05 * counted.wavefronts.max()])
    return titled(fig, "Where streams begin decides how banks collide",
                  "mean over all loads of an encoding; dashed: no conflict", height=480,
                  margin={"t": 80, "b": 110}, legend=below(55, 290))  # fmt: skip


def speedup_bounds(bounds: pd.DataFrame, measured: Mapping[str, pd.Series], what: str) -> go.Figure:
    """Speed-ups that bytes and the busiest unit allow, by sparsity, and measured ones below them.

    `bounds` comes from `analysis.hopper_budget.bounds`; `measured`: name -> speed-up by sparsity.
    """
    fig = go.Figure()
    wide = {"color": "#c3c9d1", "width": 9}  # seen beside the other line also where they coincide
    drawn = {"bytes": ("lines", wide), "busiest unit": ("lines+markers", {"color": INK})}
    for name, (mode, line) in drawn.items():
        fig.add_scatter(x=bounds.index, y=bounds[name], name=f"bound: {name}", mode=mode,
                        line=line, text=bounds.unit,
                        hovertemplate="%{x:.0%}: %{y:.2f}× (%{text})")  # fmt: skip
    symbols = dict(zip(measured, ("cross", "x", "diamond", "circle"), strict=False))
    for name, speedups in measured.items():
        colour = OURS if name == "measured" else MUTED  # a trial lies on what came of it
        fig.add_scatter(x=speedups.index, y=speedups, name=name, mode="markers",
                        marker={"color": colour, "symbol": symbols[name], "size": 10},
                        hovertemplate="%{x:.0%}: %{y:.2f}×")  # fmt: skip
    ratio_axis(fig, [*bounds["bytes"], *(x for series in measured.values() for x in series)])
    line_of_dense(fig)
    fig.update_xaxes(title="sparsity", tickformat=".0%")
    fig.update_yaxes(title="speed-up over dense")
    return titled(fig, "How fast could it be?", what, legend={"x": 0.02, "y": 0.98})


def trial_and_peers(trial: pd.DataFrame, peers: pd.DataFrame) -> go.Figure:
    """Speed-ups over dense by sparsity, a panel for each N: trials beside the published kernels.

    `trial` is table h200_zero_row_24_trial (one matrix), `peers` table h200_peers (means of eight).
    """
    rows = pd.concat([peers, trial.dropna(subset="speedup_over_dense")])
    rows = rows[rows.kernel.isin(TRIALS) & rows.sparsity.gt(0)]
    widths = sorted(rows.N.unique())
    fig = make_subplots(2, 2, subplot_titles=[f"N = {N}" for N in widths], shared_yaxes=True,
                        horizontal_spacing=0.2, vertical_spacing=0.15)  # fmt: skip
    height = ratio_axis(fig, rows.speedup_over_dense)
    for i, N in enumerate(widths):
        where, ends = {"row": i // 2 + 1, "col": i % 2 + 1}, {}
        for kernel, mine in rows[rows.N.eq(N)].groupby("kernel"):
            colour, dash = TRIALS[kernel]
            fig.add_scatter(x=mine.sparsity, y=mine.speedup_over_dense, mode="lines+markers",
                            line={"color": colour, "dash": dash}, name=kernel,
                            hovertemplate=f"{kernel}, %{{x:.0%}}: %{{y:.2f}}×<extra></extra>",
                            **where)  # fmt: skip
            ends[SHORT.get(kernel, kernel)] = (height(mine.speedup_over_dense.iloc[-1]), colour)
        line_of_dense(fig, **where)
        label_ends(fig, ends, **where)
    fig.update_annotations(selector={"yanchor": "bottom"}, font_size=13)
    fig.update_xaxes(tickformat=".0%")
    fig.update_xaxes(title="sparsity", row=2)
    fig.update_yaxes(title="speed-up over dense", col=1)
    return titled(fig, "On an H200: trials of zero-row 2:4 beside the published kernels",
                  "trials: one matrix, 36864×9216; Flash-LLM, SpInfer: means over eight matrices",
                  showlegend=False, height=700,
                  margin={"r": 100, "t": 110})  # fmt: skip
