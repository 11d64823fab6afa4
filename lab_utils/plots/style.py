"""One look for all figures: template, colour and name of each format, and the renderer."""

import functools
import os
import threading
import time
from dataclasses import dataclass
from typing import Self

import kaleido
import plotly.graph_objects as go
import plotly.io as pio
from choreographer.browsers.chromium import Chromium

FORMAT_COLOURS = {
    "dense": "#5f6b7a",
    "csr": "#c98a00",
    "tiled_csl": "#2563c4",
    "tca_bme": "#d1391f",
    "2:4": "#178a5c",
    "sparta": "#8b46b8",
    "zero_row_24": "#d6329b",
    "zero_row_24_strips": "#7d1d5e",
    "lane_24_strips": "#5c7a0a",
    "optimal": "#111827",
}
FORMAT_LABELS = {
    "dense": "dense",
    "csr": "CSR",
    "tiled_csl": "Tiled-CSL",
    "tca_bme": "TCA-BME",
    "2:4": "2:4",
    "sparta": "SparTA",
    "zero_row_24": "zero-row 2:4",
    "zero_row_24_strips": "zero-row strips",
    "lane_24_strips": "lane 2:4 strips",
    "optimal": "no indices",
}
FORMAT_SYMBOLS = {  # open and filled, so that coinciding points stay visible inside each other
    "dense": "square",
    "csr": "circle-open",
    "tiled_csl": "circle",
    "tca_bme": "diamond",
    "2:4": "square-open",
    "sparta": "triangle-up",
    "zero_row_24": "cross",
    "zero_row_24_strips": "triangle-down",
    "lane_24_strips": "pentagon",
    "optimal": "star",
}


@dataclass(frozen=True)
class Kernel:
    """How figures name and draw a sparse GPU kernel; `simt`: it uses no tensor cores."""

    label: str
    colour: str
    symbol: str
    simt: bool = False

    @classmethod
    def of_format(cls, name: str, **own: str | bool) -> Self:
        """The kernel of a format, which looks as the format does but for its `own` fields."""
        look = {"label": FORMAT_LABELS[name], "colour": FORMAT_COLOURS[name]}
        return cls(**(look | {"symbol": FORMAT_SYMBOLS[name]} | own))

    @property
    def marker(self) -> dict:
        return _marker(self.colour, self.symbol)


KERNELS = {
    "tca_bme_mma": Kernel.of_format("tca_bme"),
    "tiled_csl_mma": Kernel.of_format("tiled_csl"),
    "zero_row_24_mma": Kernel.of_format("zero_row_24"),
    "zero_row_24_strips_wgmma": Kernel.of_format("zero_row_24_strips"),
    "lane_24_strips_wgmma": Kernel.of_format("lane_24_strips"),
    "sparta": Kernel.of_format("sparta"),
    "two_four": Kernel.of_format("2:4"),
    "csr_simt": Kernel.of_format("csr", label="CSR, SIMT", simt=True),
    "cusparse": Kernel("cuSPARSE", "#8a5a2b", "x", simt=True),
}
WANTS_PNG = "LSCD_PNG"  # environment variable that the runner of notebooks sets

# For series that are not formats (devices, batch sizes, kernels).
SERIES_COLOURS = ["#2563c4", "#d1391f", "#178a5c", "#8b46b8", "#c98a00", "#0e8fa3", "#5f6b7a"]
SPARSE = "#0e8fa3"  # beside the colour of dense, where no single format is meant
INK, MUTED, GRID = "#1f2937", "#6b7280", "#e8ebef"
DIVERGING = ["#e88d7a", "#ffffff", "#86b0ee"]  # slower than dense, as fast, faster
RING = {  # marks a published value, on or beside ours
    "symbol": "circle", "size": 9, "color": "white", "line": {"color": INK, "width": 2},
}  # fmt: skip
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


def use() -> str:
    """Set template and renderer for this session and return the renderer's name.

    In JupyterLab figures are JSON only: of a PNG beside it, JupyterLab would show nothing but the
    PNG. Under `lab run` (WANTS_PNG is set), and with a Chromium or Chrome that draws, they carry
    both, so that GitHub shows executed notebooks; without one, a printed line says why not.
    """
    pio.templates.default = "lscd"
    pio.renderers.default = "plotly_mimetype"
    if WANTS_PNG in os.environ:
        trouble = _start_png_server()
        if trouble:
            print(f"Figures carry no PNG, which only GitHub would miss: {trouble}.")
        else:
            pio.renderers.default = "plotly_mimetype+png"
    return pio.renderers.default


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


def format_marker(name: str) -> dict:
    """Marker of a format: its colour and symbol, open ones larger so that others fit inside."""
    return _marker(FORMAT_COLOURS[name], FORMAT_SYMBOLS[name])


def _marker(colour: str, symbol: str) -> dict:
    marker = {"color": colour, "symbol": symbol, "size": 10}
    return {**marker, "size": 14, "line": {"width": 2}} if "open" in symbol else marker


def titled(fig: go.Figure, title: str, subtitle: str = "", **layout) -> go.Figure:
    """Give `fig` the house template, a title, a grey line below it, and other layout settings."""
    layout = {"height": 500, **layout}  # here: JupyterLab overlooks the height of a template
    text = {"text": f"<b>{title}</b>", "subtitle": {"text": subtitle}}
    text["y"] = 1 - 15 / layout["height"]  # 15 pixels below the top, however tall the figure is
    return fig.update_layout(template="lscd", title=text, **layout)


@functools.cache
def _start_png_server(timeout_s: float = 60.0) -> str | None:
    """Start kaleido's server, draw one figure, and return None or what went wrong.

    The server keeps one Chromium open: 0.2 s an image instead of 2.5 s. When its browser cannot
    start, its thread dies and every call blocks for ever, hence the watch over the first image.
    """
    if not Chromium.find_browser(skip_local=False):
        return "no Chromium or Chrome found; install one (Debian: apt install chromium)"
    pio.defaults.headers = None  # given per image, the server ignores them with a warning
    before = set(threading.enumerate())
    kaleido.start_sync_server(silence_warnings=True, mathjax=False)  # MathJax comes from a CDN
    server = next(iter(set(threading.enumerate()) - before), None)
    outcome: list[str | None] = []
    threading.Thread(target=_draw_one, args=(outcome,), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    while not outcome and server and server.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    if outcome:
        return outcome[0]
    if server and server.is_alive():
        return f"the browser did not draw within {timeout_s:.0f} s"
    kaleido.stop_sync_server(silence_warnings=True)
    return "the browser did not start"


def _draw_one(outcome: list[str | None]) -> None:
    try:
        go.Figure().to_image("png", width=20, height=20)
        outcome.append(None)
    except Exception as error:  # whatever it is, it means the same here: no PNG, and why
        outcome.append(f"{type(error).__name__}: {error}")
