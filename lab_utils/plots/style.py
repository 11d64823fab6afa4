"""The one look of all figures: palette, template, titles, and places of labels."""

import plotly.graph_objects as go
import plotly.io as pio
from pandas.io.formats.style import Styler

# For series that are not formats (devices, batch sizes, kernels).
SERIES_COLOURS = ["#2563c4", "#d1391f", "#178a5c", "#8b46b8", "#c98a00", "#0e8fa3", "#5f6b7a"]
SPARSE = "#0e8fa3"  # beside the colour of dense, where no single format is meant
INK, MUTED, GRID = "#1f2937", "#6b7280", "#e8ebef"
DIVERGING = ["#e88d7a", "#ffffff", "#86b0ee"]  # slower than dense, as fast, faster
RING = {  # marks a published value, on or beside ours
    "symbol": "circle", "size": 9, "color": "white", "line": {"color": INK, "width": 2},
}  # fmt: skip
LINE = 90  # characters of a subtitle that the output area of a window of 1000 pixels holds
SECOND_LINE = 17  # pixels that its second line takes
FONT = "Inter, Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"

_AXIS = {
    "showgrid": True,
    "gridcolor": GRID,
    "zeroline": False,
    "showline": True,
    "linecolor": "#9aa3af",
    "ticks": "outside",
    "ticklen": 5,
    "tickcolor": "#9aa3af",
    "title": {"standoff": 10, "font": {"size": 13, "color": INK}},
    "automargin": True,
}

pio.templates["lscd"] = go.layout.Template(
    layout={
        "font": {"family": FONT, "size": 13, "color": INK},
        "title": {
            "x": 0.02,  # of the figure: above a plot, long titles would lie under the toolbar
            "xref": "container",
            "xanchor": "left",
            "yref": "container",
            "yanchor": "top",
            "font": {"size": 18},
            "subtitle": {"font": {"size": 13, "color": MUTED}},
        },
        "width": 860,
        "margin": {"l": 70, "r": 40, "t": 90, "b": 64},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "colorway": SERIES_COLOURS,
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"bgcolor": "rgba(255,255,255,0.85)", "font": {"size": 12}},
        "hoverlabel": {"font": {"family": FONT, "size": 12}},
        "bargap": 0.25,
        "bargroupgap": 0.08,
    }
)


def spread(values: list[float], gap: float) -> list[float]:
    """Return positions near `values` that keep `gap` between neighbours, in the given order.

    Labels that would collide form blocks, and each block is centred on its members' mean.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    blocks: list[list[int]] = []
    centre = [0.0] * len(values)

    def place(block: list[int]) -> None:
        middle = sum(values[i] for i in block) / len(block)
        for rank, i in enumerate(block):
            centre[i] = middle + (rank - (len(block) - 1) / 2) * gap

    for i in order:
        blocks.append([i])
        place(blocks[-1])
        while len(blocks) > 1 and centre[blocks[-1][0]] - centre[blocks[-2][-1]] < gap:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
            place(blocks[-1])
    return centre


def titled(fig: go.Figure, title: str, subtitle: str = "", **layout) -> go.Figure:
    """Give `fig` the house template, a title, a grey line below it, and other layout settings.

    JupyterLab overlooks the template's width: there a figure is as wide as the output area, unless
    `layout` has a width. A subtitle too long for a narrow one has a second line, for which the
    figure and its upper margin grow.
    """
    layout = {"height": 500, **layout}  # here: JupyterLab overlooks the height of a template
    wrapped = _wrapped(subtitle)
    if wrapped != subtitle:
        top = layout.get("margin", {}).get("t", pio.templates["lscd"].layout.margin.t)
        layout["margin"] = layout.get("margin", {}) | {"t": top + SECOND_LINE}
        layout["height"] += SECOND_LINE
    text = {"text": f"<b>{title}</b>", "subtitle": {"text": wrapped}}
    text["y"] = 1 - 15 / layout["height"]  # 15 pixels below the top, however tall the figure is
    return fig.update_layout(template="lscd", title=text, **layout)


def left(table: Styler, *columns: str) -> Styler:
    """A table of a notebook with these columns, of text or source lines, at their left end."""
    styles = [{"selector": "", "props": "text-align: left"}]
    return table.set_table_styles(dict.fromkeys(columns, styles))


def below(pixels: float, plot: float) -> dict:
    """A legend that begins so many pixels below a plot area of `plot` pixels.

    There it has the lines that a narrow window takes; above a plot these would cover the subtitle.
    """
    return {"orientation": "h", "x": 0, "xanchor": "left", "y": -pixels / plot, "yanchor": "top"}


def _wrapped(subtitle: str) -> str:
    """Two lines, the first as long as it may be, where one of more than LINE characters has a
    semicolon or a comma; else as it is.
    """
    if len(subtitle) <= LINE or "<br>" in subtitle:
        return subtitle
    for mark in ("; ", ", "):
        head, found, tail = subtitle[: LINE + 1].rpartition(mark)
        if found:
            return f"{head}{mark.rstrip()}<br>{tail}{subtitle[LINE + 1 :]}"
    return subtitle
