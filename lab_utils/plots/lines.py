"""What figures with a line per format or kernel share: an axis of ratios, names at line ends."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lab_utils.plots.looks import FORMATS
from lab_utils.plots.rows import shapes
from lab_utils.plots.style import spread

RATIO_TICKS = [2.0**i for i in range(-6, 7)]


def ratio_axis(fig: go.Figure, values: Iterable[float]) -> Callable[[float], float]:
    """Logarithmic y axes around the ratios and 1; returns where on them, 0 to 1, a ratio lies."""
    ratios = np.append(np.asarray(list(values), dtype=float), 1.0)
    low, high = np.log10(ratios.min() * 0.85), np.log10(ratios.max() * 1.15)
    labels = [f"{tick:g}×" if tick >= 1 else f"1/{1 / tick:g}×" for tick in RATIO_TICKS]
    fig.update_yaxes(type="log", range=[low, high], tickvals=RATIO_TICKS, ticktext=labels)
    return lambda ratio: (np.log10(ratio) - low) / (high - low)


def line_of_dense(fig: go.Figure, **where: int) -> None:
    """The dashed line at 1×: as fast as dense."""
    line = {"color": FORMATS["dense"].colour, "width": 1.5, "dash": "dash"}
    fig.add_hline(y=1, line=line, exclude_empty_subplots=False, **where)


def line_of_means(
    fig: go.Figure, part: pd.DataFrame, mean: pd.Series, name: str, place: str, line: Mapping,
    marker: Mapping | None = None, **where: int,
) -> None:  # fmt: skip
    """A line through the geometric means of the speed-ups of rows `part`, whose shapes remain as
    faint points. `place`: what hovering says of the column that `mean` is indexed by.
    """
    hover, hidden = f"{name}, {place}: %{{y:.2f}}×<extra></extra>", {"showlegend": False, **where}
    fig.add_scatter(x=mean.index, y=mean, mode="lines+markers", name=name, line=line,
                    marker=marker, hovertemplate=hover, **hidden)  # fmt: skip
    if len(part) > len(mean):
        faint = {"color": line["color"], "size": 5, "opacity": 0.35}
        fig.add_scatter(x=part[mean.index.name], y=part.speedup, mode="markers", text=shapes(part),
                        marker=faint, hovertemplate=f"%{{text}}, {hover}", **hidden)  # fmt: skip


def label_ends(
    fig: go.Figure, ends: Mapping[str, tuple[float, str]], row: int = 1, col: int = 1
) -> None:
    """Write names beside the right end of a panel, apart from each other, each in its colour.

    `ends`: label -> (height in the panel from 0 to 1, colour).
    """
    heights = spread([height for height, _ in ends.values()], gap=0.065)
    for (label, (_, colour)), y in zip(ends.items(), heights, strict=True):
        fig.add_annotation(x=1, y=y, text=f"<b>{label}</b>", font_color=colour, row=row, col=col)
        note = fig.layout.annotations[-1]
        note.update(xref=f"{note.xref} domain", yref=f"{note.yref} domain")
        note.update(xanchor="left", yanchor="middle", xshift=6, showarrow=False)
