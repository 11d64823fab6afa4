"""Panels of cells: matrices drawn value by value, as the figures of notebooks 21 and 24 show them.

Panels are subplots in the first row of a figure, unless `row` says otherwise.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from lab_utils.plots.style import INK, MUTED

At = tuple[float, float]  # row and column of a cell


def scale(colours: Sequence[str]) -> list[tuple[float, str]]:
    """Steps between these colours, for integers from 0."""
    n = len(colours)
    return [(end / n, colour) for i, colour in enumerate(colours) for end in (i, i + 1)]


def cells(
    fig: go.Figure,
    col: int,
    z: NDArray,
    colours: Sequence[str] = (),
    name: str = "",
    *,
    row: int = 1,
    gap: int = 0,
) -> None:
    """Cells in the colours that `z` numbers from 0; the caller sets a scale if it gives none."""
    steps = {"colorscale": scale(colours), "zmax": len(colours) - 1} if colours else {}
    fig.add_heatmap(z=z, zmin=0, showscale=False, hoverinfo="skip", name=name, **steps,
                    xgap=gap, ygap=gap, row=row, col=col)  # fmt: skip


def texts(
    fig: go.Figure,
    col: int,
    found: Sequence[tuple[At, str]],
    size: int,
    colour: str = INK,
    *,
    row: int = 1,
) -> None:
    """Texts [((row, column), text)] in a panel of cells."""
    fig.add_scatter(x=[c for (_, c), _ in found], y=[r for (r, _), _ in found], mode="text",
                    text=[text for _, text in found], textfont={"size": size, "color": colour},
                    hoverinfo="skip", showlegend=False, row=row, col=col)  # fmt: skip


def frame(
    fig: go.Figure, col: int, at: At, width: float = 2, *, row: int = 1, colour: str = INK
) -> None:
    """An outline of `width` neighbours, the cell at `at` and those right of it."""
    (top, left), line = at, {"color": colour, "width": 3}
    fig.add_shape(type="rect", x0=left - 0.5, x1=left - 0.5 + width, y0=top - 0.5, y1=top + 0.5,
                  line=line, row=row, col=col)  # fmt: skip


def lines(fig: go.Figure, col: int, size: int, step: int, colour: str) -> None:
    """A line after each `step` rows and columns of `size` x `size` cells."""
    for at in np.arange(0, size + 1, step) - 0.5:
        line = {"type": "line", "line": {"color": colour, "width": 1}, "row": 1, "col": col}
        fig.add_shape(x0=-0.5, x1=size - 0.5, y0=at, y1=at, **line)
        fig.add_shape(y0=-0.5, y1=size - 0.5, x0=at, x1=at, **line)


def square(fig: go.Figure, col: int, *, row: int = 1) -> None:
    """Square cells, the first row on top, no axes."""
    axis = fig.get_subplot(row, col).xaxis.plotly_name.replace("axis", "")
    fig.update_xaxes(visible=False, constrain="domain", row=row, col=col)
    fig.update_yaxes(visible=False, autorange="reversed", scaleanchor=axis, constrain="domain",
                     constraintoward="top",
                     showline=False, showgrid=False, ticks="", tickfont_color=MUTED,
                     row=row, col=col)  # fmt: skip


def short(value: float) -> str:
    """A value in a small cell; only 0 looks like 0, and what rounds to 0 has no sign: ".00"."""
    text = f"{value:z.1f}" if abs(value) >= 0.05 else f"{value:z.2f}".replace("0.", ".")
    return text if value else "0"
