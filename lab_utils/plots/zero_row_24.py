"""Figures of notebook 24 on one tile: zero-row 2:4 as a lane, the counter and mma.sp see it."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from lab_utils.analysis import zero_row_lanes as z
from lab_utils.plots.cells import cells, frame, short, texts
from lab_utils.plots.style import INK, MUTED, titled

# What a weight, or the slot that holds it, is to the tile and to the lane that is looked at.
ZERO, OTHER, COUNTED, FIRST, SECOND, EXTRA, UNUSED = range(7)
ROLES = {
    COUNTED: ("#8fc4e8", "counted: before its own"),
    FIRST: ("#d1391f", "slot 0"),
    SECOND: ("#f0a202", "slot 1"),
    UNUSED: ("#ead3e3", "loaded, and multiplied by zeros"),
    EXTRA: ("#9fd8bd", "in another chunk"),
    OTHER: ("#d3d8df", "another lane's"),
}
COLOURS = ["#ffffff"] + [ROLES[role][0] for role in range(1, 7)]
IN_A_TILE = {
    FIRST: ("#8fc4e8", "slot 0"),
    SECOND: ("#b9a2dd", "slot 1"),
    EXTRA: ROLES[EXTRA],
    UNUSED: ROLES[UNUSED],
}
LINE = "#9aa3af"


def zero_row_groups(tile: z.Tile, weights: NDArray, step: int = 0) -> go.Figure:
    """A step of a tile: its 24 columns as stored, and the 32 columns that mma.sp multiplies.

    `weights` [16, 48] are the tile's, zeros included.
    """
    here = weights[:, 24 * step : 24 * step + 24].astype(float)
    operand, held = z.selected(tile, step), _slots(tile)[:, 8 * step : 8 * step + 8]
    wide = held.reshape(16, 32)
    roles = np.where((held[..., :3].reshape(16, 24) == ZERO) & (here != 0), EXTRA,
                     held[..., :3].reshape(16, 24))  # fmt: skip
    titles = [
        "the weights: groups of three columns",
        "what mma.sp multiplies, and by which rows of B",
    ]
    fig = make_subplots(2, 1, vertical_spacing=0.1, subplot_titles=titles)
    colours = ["#ffffff"] + [IN_A_TILE.get(role, ROLES[role])[0] for role in range(1, 7)]
    for row, z_of, values, size in ((1, roles, here, 3), (2, wide, operand, 4)):
        cells(fig, 1, z_of, colours, ("weights", "operand")[row - 1], row=row, gap=1)
        texts(fig, 1, _numbers(values), 12 - size, row=row)
        for at in np.arange(0, z_of.shape[1] + 1, size) - 0.5:
            fig.add_vline(x=at, line={"color": INK, "width": 1.5}, row=row, col=1)
    column = 24 * step + np.arange(24)
    rows = np.insert(column.reshape(8, 3).astype(str), 3, "–", axis=1).reshape(-1)
    _named_columns(fig, 1, column.astype(str), "column")
    _named_columns(fig, 2, rows, "row of B; –: the row of zeros")
    _legend(fig, IN_A_TILE)
    fig.update_annotations(font_size=13)
    return titled(
        fig,
        "Three columns and a row of zeros",
        "two slots for each group of a row; an index of 2 bits says which row of B each meets",
        height=820, margin={"l": 40, "r": 10, "t": 110, "b": 100},
        legend={"orientation": "h", "x": 0, "y": -0.09, "yanchor": "top"},
    )  # fmt: skip


def zero_row_lane(
    tile: z.Tile, weights: NDArray, lane: int, register: int = 0, step: int = 0
) -> go.Figure:
    """How `lane` fills A register 0 to 3 of a step: weights, metadata, and its stream in memory.

    `weights` [16, 48] are the tile's, zeros included.
    """
    place = z.place(lane, register, step)
    fig = make_subplots(
        3, 1, row_heights=[0.56, 0.31, 0.13], vertical_spacing=0.1,
        subplot_titles=["the weights of this step", "metadata of the stream: both indices, bits "
                        "of presence (slot 1 left)", "the stream in shared memory"],
    )  # fmt: skip
    _draw_weights(fig, tile, weights, place, step)
    _draw_metadata(fig, tile, place)
    _draw_stream(fig, tile, place)
    _legend(fig, ROLES)
    fig.update_annotations(font_size=13)
    return titled(
        fig, f"Lane {lane} fills its register a{register} of step {step}", _told(tile, place),
        height=880, margin={"l": 85, "r": 10, "t": 125, "b": 105},
        legend={"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top"},
    )  # fmt: skip


def bmma_addresses(tiles: Sequence[z.Tile], gather: int = 0, lane: int = 0) -> go.Figure:
    """The addresses of one gather for two tiles, as a product of bits: presence, masks, sums."""
    bits = np.concatenate([z.presence(tile.codes, tile.pairs) for tile in tiles])
    starts = np.concatenate([tile.starts for tile in tiles])
    masks = z.rank_masks(gather)
    sums = z.bmma(bits, masks, starts[:, None])
    fig = make_subplots(
        2, 2, column_widths=[0.5, 0.5], row_heights=[0.67, 0.33], horizontal_spacing=0.04,
        vertical_spacing=0.13, subplot_titles=["presence, 16 × 128 bits", "addresses: start + bits "
                                               "in common", "masks, 8 columns of 128 bits"],
    )  # fmt: skip
    fig.update_annotations(font_size=13)
    (g, t), columns = divmod(lane, 4), np.arange(8)
    cells(fig, 1, bits.astype(int), ["#eef1f4", "#2563c4"], "presence")
    cells(fig, 1, masks.astype(int), ["#eef1f4", "#d1391f"], "masks", row=2)
    cells(fig, 2, np.zeros((16, 8)), ["#ffffff"], "addresses")
    texts(fig, 2, [((r, c), str(sums[r, c])) for r, c in np.ndindex(16, 8)], 11)
    for row in (g, g + 8):
        frame(fig, 1, (row, 0), 128)
        frame(fig, 2, (row, 2 * t))
    for column in (2 * t, 2 * t + 1):
        frame(fig, 1, (column, 0), 128, row=2)
    for row, size in ((1, 16), (2, 8)):
        _bit_axes(fig, row, size)
    names = [
        f"group<br>{4 * gather + n // 2}<br>row<br>{'g + 8' if n % 2 else 'g'}" for n in columns
    ]
    fig.update_xaxes(tickvals=columns, ticktext=names, tickfont_size=9, tickangle=0, showgrid=False,
                     ticks="", showline=False, row=1, col=2)  # fmt: skip
    fig.update_yaxes(autorange="reversed", visible=False, row=1, col=2)
    told = (f"lane {lane} = 4 · {g} + {t}:<br>rows {g}, {g + 8}, columns {2 * t}, {2 * t + 1}<br>"
            f"{sums[g, 2 * t]} = {starts[g]} + {sums[g, 2 * t] - starts[g]} bits in common<br>"
            f"of row {g} and column {2 * t}")  # fmt: skip
    fig.add_annotation(text=told, x=0.54, y=0.145, xref="paper", yref="paper", showarrow=False,
                       xanchor="left", yanchor="middle", align="left", font_size=12)  # fmt: skip
    return titled(
        fig,
        "One instruction, 128 addresses",
        f"outlined: what lane {lane} gets, and the rows and columns that it is counted from",
        height=640, margin={"l": 60, "r": 20, "t": 115, "b": 60}, showlegend=False,
    )  # fmt: skip


def _bit_axes(fig: go.Figure, row: int, size: int) -> None:
    ticks = np.arange(0, size, 2) if size > 8 else np.arange(size)
    title = "tile, g" if size > 8 else "column"
    labels = [f"{r // 8}, {r % 8}" for r in ticks] if size > 8 else [str(r) for r in ticks]
    fig.update_yaxes(autorange="reversed", tickvals=ticks, ticktext=labels, title=title,
                     showgrid=False, ticks="", showline=False, row=row, col=1)  # fmt: skip
    fig.update_xaxes(tickvals=[15.5, 47.5, 79.5, 111.5], showgrid=False, ticks="", showline=False,
                     ticktext=[f"lane 4 g + {q}" for q in range(4)], tickfont_size=10,
                     row=row, col=1)  # fmt: skip
    for at in (31.5, 63.5, 95.5):
        fig.add_vline(x=at, line={"color": "white", "width": 3}, row=row, col=1)


def _slots(tile: z.Tile) -> NDArray[np.int64]:
    """What each index of each group of a row is: [16 rows, 16 groups, 4]."""
    roles, order = np.full((16, 16, 4), ZERO), np.arange(32)
    row, group = np.arange(8)[:, None] + 8 * (order // 4 % 2), order // 8 * 4 + order % 4
    for slot in (1, 0):
        index = tile.indices[..., slot]
        roles[row, group, index] = np.where(index == z.UNUSED, UNUSED, (FIRST, SECOND)[slot])
    return roles


def _lane_roles(tile: z.Tile, weights: NDArray, place: z.Place) -> NDArray[np.int64]:
    """What each weight of the tile is to the register at `place`: [16, 48]."""
    held = _slots(tile)[..., :3].reshape(16, 48)
    roles = np.where(weights != 0, np.where(held == ZERO, EXTRA, OTHER), ZERO)
    for order in range(place.order + 1):
        row, group = place.g + 8 * (order // 4 % 2), order // 8 * 4 + order % 4
        mine = held[row, 3 * group : 3 * group + 3]
        if order < place.order:
            mine = np.where((mine != ZERO), COUNTED, ZERO)
        cut = roles[row, 3 * group : 3 * group + 3]
        roles[row, 3 * group : 3 * group + 3] = np.where(mine != ZERO, mine, cut)
    return roles


def _draw_weights(
    fig: go.Figure, tile: z.Tile, weights: NDArray, place: z.Place, step: int
) -> None:
    shown = slice(24 * step, 24 * step + 24)
    here = weights[:, shown].astype(float)
    cells(fig, 1, _lane_roles(tile, weights, place)[:, shown], COLOURS, "weights", gap=1)
    texts(fig, 1, _numbers(here), 9)
    for at in np.arange(0, 25, 3) - 0.5:
        fig.add_vline(x=at, line={"color": LINE, "width": 1}, row=1, col=1)
    frame(fig, 1, (place.row, place.group % 8 * 3), 3)
    _named_columns(fig, 1, np.arange(24 * step, 24 * step + 24).astype(str), "column")
    fig.update_yaxes(title="row", row=1, col=1)


def _draw_metadata(fig: go.Figure, tile: z.Tile, place: z.Place) -> None:
    """The nibbles of stream g: a line for each of the four lanes that hold them."""
    order = np.arange(32)
    roles = np.where(order < place.order, COUNTED, OTHER)
    roles[place.order] = ZERO
    cells(fig, 1, roles.reshape(4, 8), COLOURS, "metadata", row=2, gap=2)
    bits = z.presence(tile.codes[place.g][None], tile.pairs).reshape(32, 4)[:, ::-1].astype(int)
    names = [" ".join("–" if i == z.UNUSED else str(i) for i in pair)
             for pair in tile.indices[place.g]]  # fmt: skip
    found = [(divmod(o, 8), f"<b>{names[o]}</b>  {''.join(map(str, bits[o]))}") for o in order]
    texts(fig, 1, found, 11, row=2)
    frame(fig, 1, divmod(place.order, 8), 1, row=2)
    lanes = [f"lane {4 * place.g + q}<br>groups {4 * q}–{4 * q + 3}" for q in range(4)]
    heads = [f"row {place.g + 8 * (n // 4)},<br>{nth} group"
             for n, nth in enumerate(("1st", "2nd", "3rd", "4th") * 2)]  # fmt: skip
    fig.update_xaxes(tickvals=np.arange(8), ticktext=heads, side="bottom", tickfont_size=10,
                     ticks="", showline=False, showgrid=False, row=2, col=1)  # fmt: skip
    fig.update_yaxes(tickvals=np.arange(4), ticktext=lanes, autorange="reversed", ticks="",
                     tickfont_size=11, showline=False, showgrid=False, row=2, col=1)  # fmt: skip


def _draw_stream(fig: go.Figure, tile: z.Tile, place: z.Place) -> None:
    """Values at their addresses: counted ones, the lane's two, and those of later groups."""
    at, start = int(z.addresses(tile)[place.g, place.order]), int(tile.starts[place.g])
    held = int(z.presence(tile.codes[place.g][None], tile.pairs).sum())  # bytes
    end = max(at + 4, start + held)
    address = np.arange(start, end, 2)
    roles = np.where(address < at, COUNTED, OTHER)
    for slot, index in enumerate(tile.indices[place.g, place.order]):
        roles[(at - start) // 2 + slot] = UNUSED if index == z.UNUSED else (FIRST, SECOND)[slot]
    cells(fig, 1, roles[None], COLOURS, "stream", row=3, gap=2)
    fig.update_xaxes(range=[-0.5, len(address) - 0.5], row=3, col=1)
    values = tile.halves[address // 2].astype(float)
    off = 0.25 if len(address) > 28 else 0  # more of them beside each other would touch
    found = [(((i % 3 - 1) * off, i), short(v)) for i, v in enumerate(values)]
    texts(fig, 1, found, 8, row=3)
    frame(fig, 1, (0, (at - start) / 2), 2, row=3)
    each = 2 if len(address) > 16 else 1
    fig.update_xaxes(tickvals=np.arange(len(address))[::each], tickfont_size=10, tickangle=0,
                     ticktext=[str(a) for a in address[::each]], ticks="", showline=False,
                     showgrid=False, title="address: bytes from the beginning of the chunk",
                     row=3, col=1)  # fmt: skip
    fig.update_yaxes(visible=False, row=3, col=1)


def _told(tile: z.Tile, place: z.Place) -> str:
    g, order, start = place.g, place.order, int(tile.starts[place.g])
    at, pair = int(z.addresses(tile)[g, order]), tile.indices[g, order]
    unit, what = (4, "words") if tile.pairs else (2, "slots in use")
    first, values = 3 * place.group, z.loaded(tile)[g, order].astype(float)
    meets = [f"{v:z.2f} for " + ("the row of zeros" if i == z.UNUSED else f"column {first + i}")
             for v, i in zip(values, pair, strict=True)]  # fmt: skip
    return (f"row {place.row}, columns {first} to {first + 2}: nibble {tile.codes[g, order]:04b}, "
            f"index {pair[0]} in slot 0, index {pair[1]} in slot 1; {(at - start) // unit} {what} "
            f"before it<br>address {start} + {unit} · {(at - start) // unit} = {at}: "
            f"loads {' and '.join(meets)}")  # fmt: skip


def _numbers(values: NDArray[np.float64]) -> list:
    return [(at, short(v)) for at, v in np.ndenumerate(values) if v]


def _named_columns(fig: go.Figure, row: int, names: Sequence[str], title: str) -> None:
    fig.update_xaxes(range=[-0.55, len(names) - 0.45], tickvals=np.arange(len(names)),
                     ticktext=names, tickfont_size=10, tickangle=0, ticks="", showline=False,
                     showgrid=False, title={"text": title, "standoff": 4},
                     row=row, col=1)  # fmt: skip
    fig.update_yaxes(autorange="reversed", ticks="", showline=False, showgrid=False,
                     tickvals=np.arange(0, 16, 5), tickfont_color=MUTED,
                     row=row, col=1)  # fmt: skip


def _legend(fig: go.Figure, roles: dict[int, tuple[str, str]]) -> None:
    """An entry for each of these roles that a cell has."""
    shown = np.concatenate([np.ravel(trace.z) for trace in fig.select_traces({"type": "heatmap"})])
    for rank, (colour, name) in enumerate(roles[role] for role in roles if role in shown):
        fig.add_scatter(x=[None], y=[None], mode="markers", name=name, legendrank=1000 + rank,
                        marker={"color": colour, "symbol": "square", "size": 12})  # fmt: skip
