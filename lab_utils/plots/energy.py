"""Products of a GPU that has rested, and of one at its limit of power."""

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import line_of_dense
from lab_utils.plots.looks import KERNELS
from lab_utils.plots.rows import of_gpu_kernels, origin
from lab_utils.plots.style import INK, MUTED, below, titled

RESTED, WARM = "after a rest", "without a pause"


def rested_and_warm(rows: pd.DataFrame) -> go.Figure:
    """Speed-up over dense against sparsity, a panel for each N: after a rest, and without a pause.

    `rows`: of `results.COLUMNS["energy"]`, all of one device and shape. Raises ValueError where
    rows hold no sparse kernel.
    """
    mine = of_gpu_kernels(rows)
    mine = mine.assign(
        rested=mine.dense_rested_us / mine.rested_us, warm=mine.dense_us / mine.time_us
    )
    Ns = sorted(mine.N.unique())
    fig = make_subplots(1, len(Ns), subplot_titles=[f"N = {N}" for N in Ns], shared_yaxes=True,
                        horizontal_spacing=0.03)  # fmt: skip
    named = set()
    for col, N in enumerate(Ns, 1):
        for kernel, part in mine[mine.N.eq(N)].groupby("kernel", sort=False):
            traces = _points(kernel, part.sort_values("sparsity"), kernel not in named)
            fig.add_traces(traces, rows=1, cols=col)
            named.add(kernel)
        line_of_dense(fig, row=1, col=col)
    values = sorted(mine.sparsity.unique())
    fig.update_xaxes(title="sparsity", tickvals=values, ticktext=[f"{s:.0%}" for s in values])
    fig.update_annotations(font={"size": 13, "color": INK}, selector={"yanchor": "bottom"})
    fig.update_yaxes(title="speed-up over the best dense product", row=1, col=1)
    plot = 330
    return titled(
        fig,
        "What a GPU at its limit of power keeps",
        f"{origin(mine)}; open: {RESTED}, filled: {WARM}",
        height=plot + 100 + 110,
        margin={"t": 100, "b": 110},
        legend=below(70, plot),
    )


def energies(rows: pd.DataFrame) -> pd.DataFrame:
    """Time, energy, power and clock without a pause, beside the time after a rest: for a table.

    A line for each sparsity, N and kernel, and the speed-up over dense by either time.
    """
    table = rows.assign(
        rested_speedup=rows.dense_rested_us / rows.rested_us, speedup=rows.dense_us / rows.time_us
    )
    table = table.sort_values(["sparsity", "N", "time_us"]).set_index(["sparsity", "N", "kernel"])
    columns = {
        "rested_us": "µs, rested", "time_us": "µs", "millijoules": "mJ", "watts": "W",
        "sm_mhz": "MHz", "rested_speedup": "speed-up, rested", "speedup": "speed-up",
    }  # fmt: skip
    return table[list(columns)].rename(columns=columns)


def _points(kernel: str, rows: pd.DataFrame, first: bool) -> list[go.Scatter]:
    """Both times of one kernel, and lines between them; the legend names it once."""
    look = KERNELS[kernel]
    between = [value for one in rows.itertuples() for value in (one.rested, one.warm, None)]
    x = [value for sparsity in rows.sparsity for value in (sparsity, sparsity, None)]
    about = rows[["millijoules", "watts", "sm_mhz"]].to_numpy()
    rested = {"symbol": "circle-open", "size": 9, "color": look.colour, "line": {"width": 2}}
    warm = {"symbol": "circle", "size": 10, "color": look.colour}
    hover = ": %{y:.2f}× at %{x:.0%}"
    told = "<br>%{customdata[0]:.1f} mJ, %{customdata[1]:.0f} W, %{customdata[2]:.0f} MHz"
    same = {"legendgroup": kernel, "name": look.label, "showlegend": False}
    return [
        go.Scatter(x=x, y=between, mode="lines", line={"color": MUTED, "width": 1},
                   hoverinfo="skip", **same),
        go.Scatter(x=rows.sparsity, y=rows.rested, mode="markers", marker=rested,
                   hovertemplate=f"{look.label}, {RESTED}{hover}<extra></extra>", **same),
        go.Scatter(x=rows.sparsity, y=rows.warm, mode="markers+lines", marker=warm,
                   line={"color": look.colour, "width": 1}, customdata=about,
                   hovertemplate=f"{look.label}, {WARM}{hover}{told}<extra></extra>",
                   **same | {"showlegend": first}),
    ]  # fmt: skip
