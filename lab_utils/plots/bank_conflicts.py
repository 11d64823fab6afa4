"""Figures of notebook 20: tiles in banks, requests in wavefronts, conflicts against sparsity."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.analysis import bank_conflicts as b
from lab_utils.plots.style import INK, MUTED, SERIES_COLOURS, below, titled

BANK_COLOURS = [
    "#f4a59a",
    "#f9d58b",
    "#b7dfa8",
    "#9cc9ee",
    "#c9b1e6",
]  # of the first to the last bank

NOTHING = "#f1f3f6"  # a bank that idles
REQUEST_COLOURS = [*SERIES_COLOURS, "#c2568f"]
ORDERS = {  # order of a tile's words: label, colour, dash
    "row by row": ("#c98a00", "dot"),
    "algorithm 3, paper's bank": ("#8b46b8", "dash"),
    "algorithm 3, real bank": ("#2563c4", "solid"),
}
SYMBOLS = dict(zip(ORDERS, ("square-open", "diamond-open", "circle"), strict=True))
CELLS = {
    "showgrid": False,
    "showline": False,
    "ticks": "",
    "zeroline": False,
    "ticklabelstandoff": 4,
}


def tile_in_banks(labels: np.ndarray, layout: b.Layout = b.SMALL) -> go.Figure:
    """A tile as the matrix has it, and as shared memory holds it; each place in its bank's colour.

    `labels` str [rows, cols]: what to write on each weight.
    """
    at = layout.location(*np.indices(labels.shape))
    written = np.empty(labels.size, dtype=object)
    written[at.ravel()] = labels.ravel()
    fig = make_subplots(1, 2, horizontal_spacing=0.1,
                        subplot_titles=["in the matrix", "in shared memory, swizzled"])  # fmt: skip
    everywhere = np.arange(at.size).reshape(at.shape)
    for col, (places, text) in enumerate(
        ((at, labels), (everywhere, written.reshape(at.shape))), 1
    ):
        for zero in (True, False):
            banks = np.where((text == "") == zero, layout.bank(places), np.nan)
            trace = _banks(banks, np.where(zero, "", text), layout.banks)
            fig.add_trace(trace.update(opacity=0.35 if zero else 1), 1, col)
    fig.update_xaxes(title="column", dtick=1, **CELLS)
    fig.update_xaxes(title="bank (two weights each)", col=2)
    pairs = list(np.arange(layout.banks) * 2 + 0.5)
    fig.update_xaxes(tickvals=pairs, ticktext=list(range(layout.banks)), col=2)
    fig.update_yaxes(title="row", autorange="reversed", dtick=1, **CELLS)
    fig.update_traces(textfont_size=13)
    fig.update_annotations(font_size=13)
    return titled(
        fig,
        f"A tile of {layout.rows} × {layout.cols} weights over {layout.banks} banks",
        "numbers: non-zeros in row order; colour: the bank that a weight lies in",
        height=460,
        margin={"t": 110},
    )


def bank_formulas(layout: b.Layout = b.TILE) -> go.Figure:
    """Bank of each pair of columns in the rows after which all repeats, by three rules.

    Framed: what ldmatrix reads at once, with the wavefronts that the rule makes of it; for
    algorithm 3, where its rule is right.
    """
    rows, cols = np.indices((layout.chunks, layout.cols))
    plain, real = (layout.location(rows, cols, swizzled) for swizzled in (False, True))
    rules = {
        "without a swizzle": layout.bank(plain),
        "Tiled-CSL": layout.bank(real),
        "algorithm 3, line 13": layout.paper_bank(real),
    }
    fig = make_subplots(len(rules), 1, vertical_spacing=0.1, subplot_titles=list(rules))
    notes = ["", "", "right in the framed columns only"]
    for row, (rule, banks) in enumerate(rules.items(), 1):
        chunk = 0 if notes[row - 1] else layout.chunks // 2
        at = slice(chunk * layout.chunk // 2, (chunk + 1) * layout.chunk // 2)
        pairs = banks[:, ::2]
        fig.add_trace(_banks(pairs, pairs.astype(str), layout.banks), row, 1)
        frame = {"x0": at.start - 0.5, "x1": at.stop - 0.5, "y0": -0.5, "y1": layout.chunks - 0.5}
        fig.add_shape(type="rect", **frame, line={"color": INK, "width": 3}, row=row, col=1)
        waves = int(np.bincount(pairs[:, at].ravel()).max())
        so = f"ldmatrix reads the frame in {waves} wavefront{'s' * (waves > 1)}"
        fig.layout.annotations[row - 1].text = f"<b>{rule}</b>: {notes[row - 1] or so}"
    chunks = list(range(0, layout.banks, layout.chunk // 2))
    fig.update_xaxes(tickvals=chunks, ticktext=[2 * first for first in chunks], **CELLS)
    fig.update_xaxes(title="column", row=len(rules))
    fig.update_yaxes(title="row", autorange="reversed", dtick=2, **CELLS)
    fig.update_annotations(x=0, xanchor="left", font_size=13)
    return titled(
        fig,
        f"Which of {layout.banks} banks a weight lies in",
        "one number for two columns; what comes after the first 8 rows repeats them",
        height=760,
        margin={"t": 110},
    )


def bank_maps(
    orders: Mapping[str, Sequence[b.Ints]],
    layout: b.Layout = b.TILE,
    labels: Mapping[int, str] | None = None,
    subtitle: str = "",
) -> go.Figure:
    """Requests as wavefronts over banks, a colour each: a panel per order of words.

    `orders`: title -> requests, each the locations that lanes store to. `labels`: location -> what
    to write on its cell.
    """
    maps = {title: _wavefronts(requests, layout) for title, requests in orders.items()}
    height = max(len(cells) for cells, _ in maps.values())
    titles = [f"<b>{title}</b><br>{len(cells)} wavefronts" for title, (cells, _) in maps.items()]
    fig = make_subplots(1, len(maps), shared_yaxes=True, horizontal_spacing=0.05,
                        subplot_titles=titles)  # fmt: skip
    for col, (cells, starts) in enumerate(maps.values(), 1):
        fig.add_trace(_requests(cells, layout, labels), 1, col)
        fig.add_trace(_borders(starts[1:], layout), 1, col)
    every = 1 if layout.banks < 8 else 4
    fig.update_xaxes(title="bank", tick0=0, dtick=every, range=[-0.5, layout.banks - 0.5], **CELLS)
    fig.update_yaxes(range=[height - 0.5, -0.5], dtick=1 if height < 12 else 4, **CELLS)
    fig.update_yaxes(title="wavefront", col=1)
    fig.update_annotations(font_size=13)
    return titled(
        fig,
        f"Requests over {layout.banks} banks",
        subtitle or "colour: request; a line begins the next; grey: the bank idles",
        height=205 + (26 if labels else 13) * max(height, 8),
        margin={"t": 125},
    )


def conflicts_by_sparsity(rows: pd.DataFrame) -> go.Figure:
    """Wavefronts per request against sparsity: a panel per pattern, a line per order of words.

    `rows` has pattern, sparsity, order (of `ORDERS`), per_request, and bound, which no order beats.
    """
    patterns = list(rows.pattern.unique())
    titles = [name.replace("_", "-") for name in patterns]
    fig = make_subplots(1, len(patterns), shared_yaxes=True, horizontal_spacing=0.03,
                        subplot_titles=titles)  # fmt: skip
    for col, pattern in enumerate(patterns, 1):
        mine = rows[rows.pattern.eq(pattern)]
        for order, part in mine.groupby("order", sort=False):
            fig.add_trace(_line(order, part, first=col == 1), 1, col)
        least = mine.drop_duplicates("sparsity")
        bound = go.Scatter(
            x=least.sparsity,
            y=least.bound,
            mode="lines",
            line={"color": MUTED, "width": 1.5, "dash": "dot"},
            name="fullest bank",
            showlegend=col == 1,
            hovertemplate="no order below %{y:.2f}<extra></extra>",
        )
        fig.add_trace(bound, 1, col)
    fig.update_xaxes(tickformat=".0%", dtick=0.1)
    fig.update_annotations(font_size=13)
    fig.update_xaxes(title="sparsity", col=(len(patterns) + 1) // 2)
    fig.update_yaxes(range=[0.9, 1.08 * rows.per_request.max()])
    fig.update_yaxes(title="wavefronts per request", col=1)
    return titled(
        fig,
        "Bank conflicts against sparsity",
        "1: no conflict; grey: words of each tile's fullest bank, or its requests if they are more",
        height=510,
        margin={"t": 110, "b": 140},
        legend=below(80, 260),
    )


def _banks(banks: np.ndarray, text: np.ndarray, count: int) -> go.Heatmap:
    return go.Heatmap(
        z=banks,
        text=text,
        texttemplate="%{text}",
        colorscale=BANK_COLOURS,
        zmin=0,
        zmax=count - 1,
        xgap=1.5,
        ygap=1.5,
        showscale=False,
        hovertemplate="bank %{z}<extra></extra>",
    )


Cells = list[dict[int, tuple[int, list[int]]]]  # a wavefront: bank -> request, its locations


def _wavefronts(requests: Sequence[b.Ints], layout: b.Layout) -> tuple[Cells, list[int]]:
    """The wavefronts of requests one after the other, and where each request begins."""
    cells: Cells = []
    starts = []
    for number, request in enumerate(requests):
        starts.append(len(cells))
        cells += [{} for _ in range(b.wavefronts(request, layout))]
        depth = dict.fromkeys(range(layout.banks), starts[-1])
        for word in dict.fromkeys((request // 2).tolist()):  # in the order of lanes
            bank = word % layout.banks
            cells[depth[bank]][bank] = number, [x for x in request.tolist() if x // 2 == word]
            depth[bank] += 1
    return cells, starts


def _requests(cells: Cells, layout: b.Layout, labels: Mapping[int, str] | None) -> go.Heatmap:
    shape = len(cells), layout.banks
    colour, text, hover = (np.full(shape, empty, dtype=object) for empty in (0, "", "idle"))
    for (y, x), _ in np.ndenumerate(colour):
        if x in cells[y]:
            number, locations = cells[y][x]
            colour[y, x] = 1 + number % len(REQUEST_COLOURS)
            text[y, x] = " ".join(labels[at] for at in locations) if labels else ""
            places = (f"({row}, {col})" for row, col in map(layout.place, locations))
            hover[y, x] = f"request {number}, weight {' and '.join(places)}"
    colours, steps = [NOTHING, *REQUEST_COLOURS], len(REQUEST_COLOURS) + 1
    scale = [[(i + end) / steps, c] for i, c in enumerate(colours) for end in (0, 1)]
    return go.Heatmap(
        z=colour,
        text=text,
        texttemplate="%{text}" if labels else None,
        customdata=hover,
        colorscale=scale,
        zmin=-0.5,
        zmax=steps - 0.5,
        xgap=1,
        ygap=1,
        showscale=False,
        hovertemplate="%{customdata}, bank %{x}<extra></extra>",
    )


def _borders(starts: list[int], layout: b.Layout) -> go.Scatter:
    """Lines above these wavefronts: one trace, since a shape each would be slow to make."""
    x = [-0.5, layout.banks - 0.5, None] * len(starts)
    y = [y for start in starts for y in (start - 0.5, start - 0.5, None)]
    line = {"color": INK, "width": 1}
    return go.Scatter(x=x, y=y, mode="lines", line=line, showlegend=False, hoverinfo="skip")


def _line(order: str, part: pd.DataFrame, first: bool) -> go.Scatter:
    colour, dash = ORDERS[order]
    return go.Scatter(
        x=part.sparsity,
        y=part.per_request,
        mode="lines+markers",
        name=order,
        legendgroup=order,
        showlegend=first,
        line={"color": colour, "dash": dash, "width": 2},
        marker={"symbol": SYMBOLS[order], "size": 8},
        hovertemplate=order + ": %{y:.2f} at %{x:.0%}<extra></extra>",
    )
