"""Figures of notebook 30: measured products against dense ones and against the byte limit.

Every function takes rows with the columns of `results.COLUMNS["spmm"]`, measured here or stored,
all of one device; the subtitle says which, and when.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.lines import label_ends, line_of_dense, ratio_axis
from lab_utils.plots.looks import FORMATS
from lab_utils.plots.rows import (
    compression_ratios,
    geometric_means,
    of_sparse_formats,
    origin,
    shapes,
)
from lab_utils.plots.style import INK, titled


def speedups(rows: pd.DataFrame) -> go.Figure:
    """Speed-up over the best dense product against sparsity: a panel per N, a line per format.

    With a single sparsity, against N in one panel.
    Dotted: the compression ratio, which is the speed-up if both sides ran at the byte limit.
    Several shapes are joined by their geometric mean, each remaining as a faint point.
    """
    rows = of_sparse_formats(rows)
    fig, panels = _panels(rows, "speed-up over the best dense product")
    for where, part in panels:
        line_of_dense(fig, **where)
        for format, of_format in part.groupby("format", sort=False):
            ratios = of_format.assign(ratio=compression_ratios(of_format))
            ratio = geometric_means(ratios, _x_axis(rows), "ratio")
            fig.add_trace(_limit_line(format, ratio), **where)
            _add_points(fig, of_format, format, "speedup", "%{y:.2f}×", _x_axis(rows), **where)
    height = ratio_axis(fig, [*rows.speedup, *compression_ratios(rows)])
    _label_lines(fig, rows, "speedup", height)
    return titled(
        fig,
        "Speed-up over dense",
        f"{origin(rows)}; dotted: compression ratio",
        **_size(rows),
    )


def fractions_of_byte_limit(rows: pd.DataFrame) -> go.Figure:
    """Share of the read bandwidth that each format reaches, against sparsity; a panel per N.

    100 % is the time to read the encoded bytes once, at the bandwidth measured in the same run.
    Grey: the dense product that was fastest.
    """
    dense = rows[rows.time_us == rows.dense_us].assign(format="dense")
    rows = pd.concat([of_sparse_formats(rows), dense])
    fig, panels = _panels(rows, "fraction of the byte limit")
    for where, part in panels:
        line = {"color": INK, "width": 1.2}
        fig.add_hline(y=1, line=line, exclude_empty_subplots=False, **where)
        for format, of_format in part.groupby("format", sort=False):
            column, x = "byte_limit_fraction", _x_axis(rows)
            _add_points(fig, of_format, format, column, "%{y:.0%}", x, **where)
    top = max(1.08, 1.08 * float(rows.byte_limit_fraction.max()))
    fig.update_yaxes(range=[0, top], tickformat=".0%")
    _label_lines(fig, rows, "byte_limit_fraction", lambda y: y / top)
    return titled(
        fig,
        "How close to the byte limit",
        f"{origin(rows)}; 100 %: encoded bytes ÷ bandwidth of the same run",
        **_size(rows),
    )


# --- what the figures share --------------------------------------------------------------------


def _x_axis(rows: pd.DataFrame) -> str:
    """What the lines run along: sparsity, or N where there is only one sparsity."""
    return "N" if rows.sparsity.nunique() == 1 and rows.N.nunique() > 1 else "sparsity"


def _grid(rows: pd.DataFrame) -> tuple[int, int]:
    """Lines and columns of panels, three in a line at most."""
    panels = 1 if _x_axis(rows) == "N" else rows.N.nunique()
    lines = -(-panels // 3)
    return lines, -(-panels // lines)


def _panels(rows: pd.DataFrame, y_title: str) -> tuple[go.Figure, Iterator]:
    """A figure, and pairs of the place of each panel in it and its rows."""
    lines, columns = _grid(rows)
    x = _x_axis(rows)
    groups = rows.groupby("sparsity" if x == "N" else "N")
    titles = [f"{key:.0%} sparsity" if x == "N" else f"N = {key}" for key in groups.groups]
    fig = make_subplots(
        rows=lines,
        cols=columns,
        shared_yaxes=True,
        horizontal_spacing=0.06,
        vertical_spacing=0.3 / lines,
        subplot_titles=titles,
    )
    fig.update_annotations(font={"size": 13, "color": INK})
    fig.update_xaxes(title=x, **_ticks(rows[x], x))
    fig.update_yaxes(title=y_title, col=1)
    places = [{"row": i // columns + 1, "col": i % columns + 1} for i in range(len(groups))]
    return fig, zip(places, (part for _, part in groups), strict=True)


def _ticks(values: pd.Series, x: str) -> dict:
    found = np.array(sorted(values.unique()), dtype=float)
    place = np.log10(found) if x == "N" else found
    margin = 0.08 * (place[-1] - place[0]) or 0.05
    ticks = {"tickvals": found} if x == "N" or len(found) <= 5 else {}
    kind = {"type": "log"} if x == "N" else {"tickformat": ".0%"}
    return {"range": [place[0] - margin, place[-1] + margin], **ticks, **kind}


def _limit_line(format: str, ratio: pd.Series) -> go.Scatter:
    colour = FORMATS[format].colour
    hover = f"{FORMATS[format].label}, dense ÷ encoded bytes: %{{y:.2f}}<extra></extra>"
    line = {"color": colour, "width": 1.2, "dash": "dot"}
    limit = go.Scatter(x=ratio.index, y=ratio, mode="lines", line=line, hovertemplate=hover)
    if len(ratio) == 1:  # a point has no line
        mark = {"symbol": "line-ew", "size": 26, "line": {"color": colour, "width": 1.2}}
        limit.update(mode="markers", marker=mark)
    return limit.update(showlegend=False)


def _add_points(
    fig: go.Figure, rows: pd.DataFrame, format: str, column: str, number: str, x: str, **where
) -> None:
    """The line of a format, through the geometric means, and faint points of its shapes."""
    colour, label = FORMATS[format].colour, FORMATS[format].label
    mean = geometric_means(rows, x, column)
    place = "N = %{x}" if x == "N" else "%{x:.0%}"
    hover = f"{label}, {place}: {number}<extra></extra>"
    line, marker = {"color": colour, "width": 2.5}, FORMATS[format].marker
    fig.add_scatter(x=mean.index, y=mean, mode="lines+markers", line=line, marker=marker, **where)
    fig.data[-1].update(name=label, hovertemplate=hover, showlegend=False)
    if len(rows) > len(mean):
        faint = {"color": colour, "size": 5, "opacity": 0.35}
        fig.add_scatter(x=rows[x], y=rows[column], mode="markers", marker=faint, **where)
        each = {"text": shapes(rows), "hovertemplate": f"%{{text}}, {hover}"}
        fig.data[-1].update(showlegend=False, **each)


def _label_lines(
    fig: go.Figure, rows: pd.DataFrame, column: str, height: Callable[[float], float]
) -> None:
    """Write each format's name beside the end of its line, in the last panel of the first line.

    `height` of a value is its place on the y axis, from 0 to 1.
    """
    x, (_, last) = _x_axis(rows), _grid(rows)
    part = rows if x == "N" else rows[rows.N.eq(sorted(rows.N.unique())[last - 1])]
    means = geometric_means(part, ["format", x], column).groupby("format", sort=False).last()
    ends = {
        FORMATS[format].label: (height(mean), FORMATS[format].colour)
        for format, mean in means.items()
    }
    label_ends(fig, ends, col=last)


def _size(rows: pd.DataFrame) -> dict:
    lines, _ = _grid(rows)
    return {
        "height": 160 + 290 * lines,
        "margin": {"t": 110, "r": 145},
    }
