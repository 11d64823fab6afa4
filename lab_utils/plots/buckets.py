"""Algorithm 3 of Flash-LLM as a figure: buckets on the left, the words they become on the right."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lab_utils.analysis import bank_conflicts as b
from lab_utils.plots.bank_conflicts import CELLS, NOTHING, REQUEST_COLOURS
from lab_utils.plots.style import INK, MUTED, titled

WAITING = "#c6ccd5"
SCALE = [NOTHING, WAITING, *REQUEST_COLOURS]


def bucket_step(
    in_order: b.Ints, steps: Sequence[b.Pick], labels: Sequence[str], at: int, layout=b.SMALL
) -> go.Figure:
    """Buckets and words after the first `at` of algorithm 3's `steps`; colour: request.

    All steps have equally many annotations and shapes: an animation would keep superfluous ones.

    `in_order`: locations of the words, whose `labels` are written on them. Raises ValueError for a
    step out of range.
    """
    if not 0 <= at <= len(steps):
        raise ValueError(f"at={at}: allowed: 0 to {len(steps)}")
    request_of = np.array([_request(slot, layout.banks) for slot in range(len(steps))])
    fig = make_subplots(1, 2, horizontal_spacing=0.1, column_widths=[0.5, 0.5],
                        subplot_titles=["buckets", "words by request and lane"])  # fmt: skip
    buckets = [np.flatnonzero(layout.bank(in_order) == bank) for bank in range(layout.banks)]
    taken = {pick.word: pick for pick in steps[:at]}
    _add_buckets(fig, buckets, taken, request_of, labels)
    _add_words(fig, taken, request_of, labels, layout.banks)
    for request in range(int(request_of.max()) + 1):
        slots = np.flatnonzero(request_of == request)
        mine = [pick.word for pick in steps[:at] if pick.slot in slots]
        waves = b.wavefronts(in_order[mine], layout) if mine else 0
        words = f"{waves} wavefront{'s' * (waves > 1)}" if mine else ""
        colour = INK if len(mine) == len(slots) else MUTED
        fig.add_annotation(x=layout.banks - 0.4, y=request, text=words, showarrow=False,
                           xanchor="left", font_color=colour, row=1, col=2)  # fmt: skip
    _frame(fig, steps[max(at, 1) - 1], buckets, request_of, visible=at > 0)
    return _axes(fig, max(map(len, buckets)), int(request_of.max()), layout.banks, at, len(steps))


def bucket_animation(
    in_order: b.Ints, steps: Sequence[b.Pick], labels: Sequence[str], layout=b.SMALL
) -> go.Figure:
    """All steps as frames, with a button that plays them and a slider; the last one is shown."""
    drawn = [bucket_step(in_order, steps, labels, at, layout) for at in range(len(steps) + 1)]
    keep = ("annotations", "shapes", "title")
    frames = [
        go.Frame(data=one.data, layout={k: one.layout[k] for k in keep}, name=str(at))
        for at, one in enumerate(drawn)
    ]
    fig = go.Figure(drawn[-1].data, drawn[-1].layout, frames)
    now = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate"}
    play = {"frame": {"duration": 600, "redraw": True}, "transition": {"duration": 0}}
    marks = [
        {"label": str(at), "method": "animate", "args": [[str(at)], now]}
        for at in range(len(drawn))
    ]
    buttons = [
        {"label": "▶ play", "method": "animate", "args": [[f.name for f in frames], play]},
        {"label": "❚❚", "method": "animate", "args": [[None], now]},
    ]
    below = {"y": -0.2, "yanchor": "top"}
    menu = {"type": "buttons", "direction": "left", "buttons": buttons, "x": 0, "xanchor": "left"}
    slider = {"steps": marks, "active": len(drawn) - 1, "x": 0.22, "len": 0.78, **below}
    slider |= {"currentvalue": {"visible": False}, "pad": {"t": 6}}
    return fig.update_layout(
        height=560,
        margin={"b": 130},
        updatemenus=[menu | below | {"showactive": False}],
        sliders=[slider],
    )


def _request(slot: int, lanes: int) -> int:
    """Which of a tile's requests the word in that slot belongs to."""
    return slot // (b.VECTOR * lanes) * b.VECTOR + slot % b.VECTOR


def _lane(slot: int, lanes: int) -> int:
    return slot // b.VECTOR % lanes


def _colour(request: int) -> int:
    return 2 + request % len(REQUEST_COLOURS)


def _cells(z: np.ndarray, text: np.ndarray) -> go.Heatmap:
    steps = len(SCALE)
    return go.Heatmap(
        z=z,
        text=text,
        texttemplate="%{text}",
        textfont_size=13,
        colorscale=[[(i + end) / steps, c] for i, c in enumerate(SCALE) for end in (0, 1)],
        zmin=-0.5,
        zmax=steps - 0.5,
        xgap=2,
        ygap=2,
        showscale=False,
        hoverinfo="skip",
    )


def _add_buckets(fig, buckets, taken, request_of, labels) -> None:
    height = max(map(len, buckets))
    z, text = np.full((height, len(buckets)), np.nan), np.full((height, len(buckets)), "", object)
    for bank, words in enumerate(buckets):
        for place, word in enumerate(words):
            pick = taken.get(int(word))
            z[place, bank] = _colour(request_of[pick.slot]) if pick else 1
            text[place, bank] = labels[word]
    fig.add_trace(_cells(z, text), 1, 1)


def _add_words(fig, taken, request_of, labels, lanes) -> None:
    shape = int(request_of.max()) + 1, lanes
    z, text = np.full(shape, np.nan), np.full(shape, "", object)
    for slot, request in enumerate(request_of):
        z[request, _lane(slot, lanes)] = 0
    for word, pick in taken.items():
        where = int(request_of[pick.slot]), _lane(pick.slot, lanes)
        z[where], text[where] = _colour(where[0]), f"<b>{labels[word]}</b><br>bank {pick.bank}"
    fig.add_trace(_cells(z, text).update(textfont_size=11), 1, 2)


def _frame(fig, pick: b.Pick, buckets, request_of, visible: bool) -> None:
    """Around the word that was taken last, in both panels."""
    places = ((pick.bank, int(np.flatnonzero(buckets[pick.bank] == pick.word)[0])),
              (_lane(pick.slot, len(buckets)), int(request_of[pick.slot])))  # fmt: skip
    for col, (x, y) in enumerate(places, 1):
        corners = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
        fig.add_shape(type="rect", **corners, line={"color": INK, "width": 3},
                      visible=visible, row=1, col=col)  # fmt: skip


def _axes(fig, height: int, last: int, lanes: int, at: int, steps: int) -> go.Figure:
    fig.update_annotations(font_size=13)
    fig.update_xaxes(dtick=1, **CELLS)
    fig.update_xaxes(title="bank", range=[-0.5, lanes - 0.5], col=1)
    fig.update_xaxes(title="lane", range=[-0.5, lanes + 0.9], tickvals=list(range(lanes)), col=2)
    fig.update_yaxes(dtick=1, **CELLS)
    fig.update_yaxes(title="words in bucket", tickvals=[], range=[-0.5, height - 0.5], col=1)
    fig.update_yaxes(title="request", range=[last + 0.5, -0.5], col=2)
    return titled(
        fig,
        f"Algorithm 3 after {at} of {steps} words",
        "each word comes from the top of the fullest bucket; framed: the last one",
        height=460,
        margin={"t": 110},
    )
