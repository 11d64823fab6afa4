"""Figures of notebook 21: how TCA-BME nests, and how lanes find their values by counting bits."""

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from lab_utils.analysis.bitmap_decoding import (
    Lanes,
    Strip,
    decode_lanes,
    fragment_place,
    fragments,
)
from lab_utils.plots.cells import cells, frame, lines, scale, short, square, texts
from lab_utils.plots.style import INK, SERIES_COLOURS, titled

# What a bit, or the value behind it, is to the lane that is looked at.
CLEAR, UNCOUNTED, MASKED, LOW, HIGH, FIRST, SECOND = range(7)
ROLES = {
    MASKED: ("#e3e7ec", "below, but 0"),
    LOW: ("#8fc4e8", "counted, low half"),
    HIGH: ("#b9a2dd", "counted, high half"),
    FIRST: ("#d1391f", "first value"),
    SECOND: ("#f0a202", "second value"),
    UNCOUNTED: ("#c9ced6", "another lane's"),
}
ROLE_COLOURS = ["#ffffff"] + [ROLES[role][0] for role in range(1, 7)]
REGISTER_COLOURS = ["#cfe1f7", "#f8d5ce", "#cdebdf", "#e4d5f0"]


def bitmap_nesting(nonzero: NDArray[np.bool_]) -> go.Figure:
    """TCA-BME's order, from GroupTiles to bits; of `nonzero` [M, K], what its corner has."""
    titles = ("four GroupTiles, 64×64", "GroupTile 0: strips, 8×8 tiles", "tile 0: 64 bits")
    fig = make_subplots(1, 3, subplot_titles=titles, horizontal_spacing=0.05)
    strips, groups_k = np.arange(4).repeat(16), max(2, -(-nonzero.shape[1] // 64))
    missing = [(0, max(0, 128 - size)) for size in nonzero.shape]  # as the encoder pads, and more
    nonzero = np.pad(nonzero, missing)
    cells(fig, 1, np.where(nonzero[:128, :128], 5, np.kron([[0, 1], [2, 3]], np.ones((64, 64)))))
    cells(fig, 2, np.where(nonzero[:64, :64], 5, strips[:, None] * np.ones(64)))
    cells(fig, 3, np.where(nonzero[:8, :8], 5, 0))
    fig.update_traces(colorscale=scale([*REGISTER_COLOURS, "#ffffff", "#9fb0c3"]), zmax=5)
    texts(fig, 1, [((32 + 64 * i, 32 + 64 * j), f"<b>{i * groups_k + j}</b>")
                    for i in (0, 1) for j in (0, 1)], 22)  # fmt: skip
    texts(fig, 2, [((r * 8 + 3.5, c * 8 + 3.5), f"<b>{_bitmap_number(r, c)}</b>")
                    for r, c in np.ndindex(8, 8)], 11)  # fmt: skip
    texts(fig, 3, [((r, c), f"<b>{8 * r + c}</b>") for r, c in np.ndindex(8, 8)], 11)
    lines(fig, 1, 128, 64, INK)
    lines(fig, 2, 64, 8, "white")
    lines(fig, 2, 64, 16, INK)
    lines(fig, 3, 8, 1, "white")
    for panel in (1, 2, 3):
        square(fig, panel)
    fig.update_annotations(font_size=12)
    return titled(
        fig,
        "TCA-BME: the order of the tensor core's registers",
        "numbers: order in memory; dark: non-zeros; strips of 16 rows, one for each warp",
        height=370, margin={"l": 20, "r": 20, "t": 110, "b": 20}, showlegend=False,
    )  # fmt: skip


def fragment_layout() -> go.Figure:
    """Which lane holds which element of A of mma.m16n8k16, and in which register."""
    z, lanes = np.zeros((16, 16)), []
    for q, lane, half in np.ndindex(4, 32, 2):
        row, col = fragment_place(lane, q, half)
        z[row, col] = q
        lanes += [((row, col + 0.5), str(lane))] * (half == 0)
    fig = make_subplots(1, 1)
    cells(fig, 1, z)
    fig.update_traces(colorscale=scale(REGISTER_COLOURS), zmax=3)
    texts(fig, 1, lanes, 11)
    corners = [((8 * (q % 2) + 3.5, 8 * (q // 2) + 3.5), f"<b>a{q}</b>") for q in range(4)]
    texts(fig, 1, corners, 90, "rgba(31,41,55,0.13)")
    for at in range(2, 16, 2):
        fig.add_vline(x=at - 0.5, line={"color": "white", "width": 2})
    square(fig, 1)
    return titled(
        fig,
        "The A fragment of mma.m16n8k16",
        "number: the lane whose register holds these two neighbours; a0 to a3: its registers",
        height=560, margin={"l": 20, "r": 20, "t": 90, "b": 20}, showlegend=False,
    )  # fmt: skip


def lane_decode(strip: Strip, lane: int, register: int = 0, k16: int = 0) -> go.Figure:
    """How `lane` fills A register 0 to 3 of columns 16 * k16 to 16 * k16 + 15 of a strip.

    Panels: the bitmap with the bits that are counted, the fragment as filled so far, and the run of
    values that both bits of the lane look into.
    """
    tile = 4 * k16 + register
    lanes = decode_lanes(strip.bits[tile : tile + 1], strip.starts[tile : tile + 1])
    roles = _roles(strip.bits[tile], lane)
    fig = make_subplots(
        2, 2, column_widths=[0.36, 0.64], row_heights=[0.88, 0.12], horizontal_spacing=0.06,
        vertical_spacing=0.17, specs=[[{}, {}], [{"colspan": 2}, None]],
        subplot_titles=[f"bitmap of 8×8 tile {tile}", "the warp's fragment of A", "its values"],
    )  # fmt: skip
    _draw_bitmap(fig, strip.bits[tile], roles, lane)
    _draw_fragment(fig, strip, lane, register, k16)
    _draw_run(fig, strip, tile, roles)
    shown = {FIRST, SECOND, *roles.tolist()}  # the fragment has the lane's two, zeros or not
    for role, (colour, name) in ((role, ROLES[role]) for role in ROLES if role in shown):
        fig.add_scatter(x=[None], y=[None], mode="markers", name=name, legendrank=1000 + role,
                        marker={"color": colour, "symbol": "square", "size": 12})  # fmt: skip
    legend = {"orientation": "h", "x": 0, "y": -0.13, "yanchor": "top"}
    fig.update_annotations(font_size=13)
    title, subtitle = f"Lane {lane} fills its register a{register}", _told(lanes, lane, strip)
    return titled(fig, title, subtitle, height=760, legend=legend,
                  margin={"l": 30, "r": 20, "t": 120, "b": 90})  # fmt: skip


def decode_budget(needs: dict[float, dict[str, float]], memory: dict[float, float]) -> go.Figure:
    """Clocks of an SM per 64 weights: what each unit needs, by sparsity, and what memory takes."""
    names = [f"{s:.0%}" for s in needs]
    fig = go.Figure()
    colours = dict(zip(next(iter(needs.values())), SERIES_COLOURS, strict=False))
    for unit, colour in colours.items():
        clocks = [one[unit] for one in needs.values()]
        fig.add_bar(x=names, y=clocks, name=unit, marker_color=colour,
                    text=[f"{c:.1f}" for c in clocks], textposition="inside", textangle=0,
                    insidetextanchor="middle",
                    hovertemplate=f"{unit}: %{{y:.2f}} clocks<extra></extra>")  # fmt: skip
    for i, sparsity in enumerate(needs):
        fig.add_shape(type="line", x0=i - 0.45, x1=i + 0.45, y0=memory[sparsity],
                      y1=memory[sparsity], line={"color": INK, "width": 3})  # fmt: skip
    fig.add_scatter(x=[None], y=[None], mode="lines", name="memory brings the bytes",
                    line={"color": INK, "width": 3})  # fmt: skip
    fig.update_xaxes(title="sparsity", type="category", showgrid=False)
    fig.update_yaxes(title="clocks of an SM per 64 weights")
    return titled(
        fig,
        "Does the decode hide behind memory?",
        "a bar above the black line: memory waits for that unit, whatever the format saves",
        legend={"orientation": "h", "x": 0, "y": -0.17, "yanchor": "top"},
    )


def _told(lanes: Lanes, lane: int, strip: Strip) -> str:
    low, high, at = (int(a[0, lane]) for a in (lanes.low, lanes.high, lanes.at))
    found = []
    for which, has, place in (("first", lanes.first, lanes.at),
                              ("second", lanes.second, lanes.second_at)):  # fmt: skip
        here = int(place[0, lane])
        found.append(f"{which} = values[{here}] = {float(strip.values[here]):z.2f}"
                     if has[0, lane] else f"{which} = 0")  # fmt: skip
    start = at - low - high
    return (f"run starts at {start}; set below its bits: {low} low, {high} high; "
            f"so at = {start} + {low} + {high} = {at}<br>bits {2 * lane} and {2 * lane + 1} "
            f"are {int(lanes.first[0, lane])} and {int(lanes.second[0, lane])}: "
            + ", ".join(found))  # fmt: skip


def _roles(bits: NDArray[np.bool_], lane: int) -> NDArray[np.int64]:
    """What each of 64 bits is to a lane."""
    place = np.arange(64)
    below = place < 2 * lane
    roles = np.where(bits, np.where(below, np.where(place < 32, LOW, HIGH), UNCOUNTED), CLEAR)
    roles[below & ~bits] = MASKED
    for role, bit in ((FIRST, 2 * lane), (SECOND, 2 * lane + 1)):
        roles[bit] = role if bits[bit] else CLEAR
    return roles


def _draw_bitmap(fig: go.Figure, bits: NDArray, roles: NDArray, lane: int) -> None:
    cells(fig, 1, roles.reshape(8, 8), ROLE_COLOURS, "bitmap")
    texts(fig, 1, [((r, c), str(int(bits[8 * r + c]))) for r, c in np.ndindex(8, 8)], 14)
    lines(fig, 1, 8, 1, "#d7dce2")
    axis = {"color": INK, "width": 2}
    fig.add_shape(type="line", x0=-0.5, x1=7.5, y0=3.5, y1=3.5, line=axis, row=1, col=1)
    fig.update_yaxes(tickvals=[1.5, 5.5], ticktext=["low half", "high half"], tickangle=-90,
                     row=1, col=1)  # fmt: skip
    square(fig, 1)
    fig.update_yaxes(visible=True, row=1, col=1)
    row, col = divmod(2 * lane, 8)
    frame(fig, 1, (row, col))


def _draw_fragment(fig: go.Figure, strip: Strip, lane: int, register: int, k16: int) -> None:
    quad = slice(4 * k16, 4 * k16 + 4)
    held = fragments(strip.bits[quad], strip.starts[quad], strip.values).astype(float)
    z, found = np.full((16, 16), 4.0), []
    for q, i, half in np.ndindex(register + 1, 32, 2):
        place = fragment_place(i, q, half)
        z[place] = 5 + half if (i, q) == (lane, register) else q
        if z[place] > 4 or held[q, i, half]:
            found.append((place, short(held[q, i, half])))
    colours = [*REGISTER_COLOURS, "#ffffff", ROLES[FIRST][0], ROLES[SECOND][0]]
    cells(fig, 2, z, colours, "fragment")
    texts(fig, 2, found, 9)
    lines(fig, 2, 16, 8, "#9aa3af")
    for q in range(4):
        frame(fig, 2, fragment_place(lane, q, 0))
    pairs = [f"({first:z.2f}, {second:z.2f})" for first, second in held[: register + 1, lane]]
    now = [f"a{q} = {pair}" for q, pair in enumerate([*pairs, *"…" * (3 - register)])]
    told = f"lane {lane}: {'   '.join(now[:2])}<br>{'   '.join(now[2:])}"
    square(fig, 2)
    fig.update_xaxes(title={"text": told, "font": {"size": 12}}, visible=True,
                     showticklabels=False, ticks="", showline=False, showgrid=False,
                     row=1, col=2)  # fmt: skip


def _draw_run(fig: go.Figure, strip: Strip, tile: int, roles: NDArray[np.int64]) -> None:
    """The tile's values in memory, each in the colour of its bit."""
    mine, start = roles[strip.bits[tile]], int(strip.starts[tile])
    values = strip.values[start : start + len(mine)].astype(float)
    where = {"row": 2, "col": 1}
    fig.add_heatmap(z=[mine], x=start + np.arange(len(mine)), zmin=0, zmax=6, showscale=False,
                    colorscale=scale(ROLE_COLOURS), xgap=2, name="values",
                    hovertemplate="values[%{x}]<extra></extra>", **where)  # fmt: skip
    fig.add_scatter(x=start + np.arange(len(mine)), y=np.zeros(len(mine)), mode="text",
                    text=[short(v) for v in values], textfont={"size": 9, "color": INK},
                    hoverinfo="skip", showlegend=False, **where)  # fmt: skip
    fig.update_xaxes(showgrid=False, showline=False, title="place in values", **where)
    fig.update_yaxes(visible=False, **where)


def _bitmap_number(row: int, col: int) -> int:
    """Place in storage of the 8x8 tile (row, col) of a GroupTile: strips, TCTiles, columns."""
    return row // 2 * 16 + col // 2 * 4 + col % 2 * 2 + row % 2
