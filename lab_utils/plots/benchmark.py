"""Figures of notebook 30: measured products against dense ones and against the byte limit.

Every function takes rows with the columns of `results.COLUMNS["spmm"]`, measured here or stored,
all of one device; the subtitle says which, and when.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.plots.rows import (
    dense_bytes,
    of_sparse_formats,
    origin,
    shapes,
    single_case,
    with_format,
)
from lab_utils.plots.style import (
    FORMAT_COLOURS,
    FORMAT_LABELS,
    INK,
    format_marker,
    spread,
    titled,
)

BASELINE = FORMAT_COLOURS["dense"]
RATIO_TICKS = [2.0**i for i in range(-6, 7)]


def speedups(rows: pd.DataFrame) -> go.Figure:
    """Speed-up over the best dense product against sparsity: a panel per N, a line per format.

    With a single sparsity, against N in one panel.
    Dotted: the compression ratio, which is the speed-up if both sides ran at the byte limit.
    Several shapes are joined by their geometric mean, each remaining as a faint point.
    """
    rows = of_sparse_formats(rows)
    fig, panels = _panels(rows, "speed-up over the best dense product")
    for where, part in panels:
        line = {"color": BASELINE, "width": 1.5, "dash": "dash"}
        fig.add_hline(y=1, line=line, exclude_empty_subplots=False, **where)
        for format, of_format in part.groupby("format", sort=False):
            ratio = _mean(of_format.assign(ratio=dense_bytes(of_format)), _x_axis(rows), "ratio")
            fig.add_trace(_limit_line(format, ratio), **where)
            _add_points(fig, of_format, format, "speedup", "%{y:.2f}×", _x_axis(rows), **where)
    ratios = np.concatenate([rows.speedup, dense_bytes(rows), [1.0]])
    low, high = np.log10(ratios.min() * 0.85), np.log10(ratios.max() * 1.15)
    labels = [f"{tick:g}×" for tick in RATIO_TICKS]
    fig.update_yaxes(type="log", range=[low, high], tickvals=RATIO_TICKS, ticktext=labels)
    _label_lines(fig, rows, "speedup", lambda y: (np.log10(y) - low) / (high - low))
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


def time_bars(rows: pd.DataFrame) -> go.Figure:
    """Time of every kernel for one case, fastest first, with the range from p10 to p90.

    Dense baselines are grey. The black tick on each bar is its byte limit: reading its bytes once.
    Raises ValueError where the rows hold more than one case.
    """
    case = single_case(rows)
    rows = with_format(rows).sort_values("time_us", ascending=False)
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": rows.p90_us - rows.time_us,
        "arrayminus": rows.time_us - rows.p10_us,
        "color": INK,
        "thickness": 1.2,
        "width": 4,
    }
    fig = go.Figure()
    fig.add_bar(
        x=rows.time_us,
        y=rows.kernel,
        orientation="h",
        error_x=whiskers,
        marker_color=[FORMAT_COLOURS.get(format, BASELINE) for format in rows.format],
        showlegend=False,
        hovertemplate="%{y}: %{x:,.0f} µs<extra></extra>",
    )
    fig.add_trace(_byte_limit_ticks(rows))
    for row in rows.itertuples():
        text = f"<b>{row.time_us:,.0f} µs</b>  {row.speedup:.2f}×"
        fig.add_annotation(x=max(row.p90_us, row.time_us), y=row.kernel, text=text)
    fig.update_annotations(showarrow=False, xanchor="left", xshift=8)
    fig.update_xaxes(title="time (µs)", range=[0, 1.28 * float(rows.p90_us.max())])
    fig.update_yaxes(showgrid=False, ticks="")
    return titled(
        fig,
        f"One product, every kernel: N = {case.N}, {case.sparsity:.0%} sparsity",
        f"{origin(rows)}; whiskers: p10 to p90; ×: speed-up over the best dense product",
        height=150 + 42 * len(rows),
        margin={"t": 100},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom"},
    )


def speedup_heatmap(rows: pd.DataFrame, format: str) -> go.Figure:
    """Speed-up of one format over the best dense product: shapes by N, a panel per sparsity.

    Red is slower than dense, blue faster; the colour scale is logarithmic, so that half the speed
    is as far from white as twice the speed.
    """
    rows = of_sparse_formats(rows)
    rows = rows[rows.format == format]
    if rows.empty:
        raise ValueError(f"format={format!r}: no row of it among those given")
    sparsities = sorted(rows.sparsity.unique())
    titles = [f"{s:.0%} sparsity" for s in sparsities]
    fig = make_subplots(cols=len(sparsities), shared_yaxes=True, subplot_titles=titles)
    reach = max(0.5, float(np.abs(np.log2(rows.speedup)).max()))
    for column, s in enumerate(sparsities, 1):
        fig.add_trace(_heat(rows[rows.sparsity == s], reach), row=1, col=column)
    names = shapes(rows.sort_values(["M", "K"])).unique()
    categories = {"type": "category", "showgrid": False, "ticks": ""}
    fig.update_xaxes(title="N", **categories)
    fig.update_yaxes(**categories, categoryorder="array", categoryarray=names[::-1])
    fig.update_annotations(font={"size": 13, "color": INK})
    return titled(
        fig,
        f"{FORMAT_LABELS[format]} against the best dense product",
        origin(rows),
        height=210 + 42 * len(names),
        width=max(560, 260 + 55 * rows.N.nunique() * len(sparsities)),
        margin={"t": 110},
    )


# --- what the figures share --------------------------------------------------------------------


def _x_axis(rows: pd.DataFrame) -> str:
    """What the lines run along: sparsity, or N where there is only one sparsity."""
    return "N" if rows.sparsity.nunique() == 1 and rows.N.nunique() > 1 else "sparsity"


def _mean(rows: pd.DataFrame, x: str, column: str) -> pd.Series:
    """Geometric mean of `column` over everything but `x`."""
    return np.exp(np.log(rows[column]).groupby(rows[x]).mean())


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
        horizontal_spacing=0.035,
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
    colour = FORMAT_COLOURS[format]
    hover = f"{FORMAT_LABELS[format]}, dense ÷ encoded bytes: %{{y:.2f}}<extra></extra>"
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
    colour, label = FORMAT_COLOURS[format], FORMAT_LABELS[format]
    mean = _mean(rows, x, column)
    place = "N = %{x}" if x == "N" else "%{x:.0%}"
    hover = f"{label}, {place}: {number}<extra></extra>"
    line, marker = {"color": colour, "width": 2.5}, format_marker(format)
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
    groups = part.groupby("format", sort=False)
    ends = {format: height(_mean(one, x, column).iloc[-1]) for format, one in groups}
    for format, y in zip(ends, spread(list(ends.values()), gap=0.065), strict=True):
        text, colour = f"<b>{FORMAT_LABELS[format]}</b>", FORMAT_COLOURS[format]
        fig.add_annotation(x=1, y=y, text=text, font_color=colour, row=1, col=last)
        label = fig.layout.annotations[-1]
        label.update(xref=f"{label.xref} domain", yref=f"{label.yref} domain")
        label.update(xanchor="left", yanchor="middle", xshift=6, showarrow=False)


def _size(rows: pd.DataFrame) -> dict:
    lines, columns = _grid(rows)
    return {
        "width": 700 + 60 * columns,
        "height": 160 + 290 * lines,
        "margin": {"t": 110, "r": 95},
    }


def _byte_limit_ticks(rows: pd.DataFrame) -> go.Scatter:
    return go.Scatter(
        x=rows.time_us * rows.byte_limit_fraction,
        y=rows.kernel,
        mode="markers",
        marker={"symbol": "line-ns", "size": 22, "line": {"color": "black", "width": 2.5}},
        name="byte limit",
        hovertemplate="byte limit of %{y}: %{x:,.0f} µs<extra></extra>",
    )


def _heat(rows: pd.DataFrame, reach: float) -> go.Heatmap:
    table = rows.assign(shape=shapes(rows)).pivot_table("speedup", "shape", "N")
    return go.Heatmap(
        z=np.log2(table),
        x=table.columns.astype(str),
        y=table.index,
        text=table,
        texttemplate="%{text:.2f}",
        textfont={"color": INK},
        colorscale=["#e88d7a", "#ffffff", "#86b0ee"],
        zmin=-reach,
        zmax=reach,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{y}, N = %{x}: %{text:.2f}×<extra></extra>",
    )
