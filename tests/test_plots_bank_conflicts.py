"""Figures of notebook 20 draw what the arithmetic says."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lab_utils import plots
from lab_utils.analysis import bank_conflicts as b
from lab_utils.patterns import random_sparse
from lab_utils.plots.bank_conflicts import ORDERS


@pytest.fixture(scope="module")
def in_order() -> b.Ints:
    return b.locations(random_sparse(8, 8, 0.6).numpy() != 0, b.SMALL)


@pytest.fixture(scope="module")
def steps(in_order) -> list[b.Pick]:
    return b.picks(in_order, b.SMALL)


@pytest.fixture(scope="module")
def labels(in_order) -> list[str]:
    return [str(number) for number in range(len(in_order))]


def texts(trace) -> list[str]:
    return [text for text in np.asarray(trace.text, dtype=object).ravel() if text]


def test_both_panels_hold_each_weight_in_its_bank():
    labels = np.full((8, 8), "", dtype=object)
    labels[1, 2], labels[7, 7] = "a", "b"
    fig = plots.tile_in_banks(labels)
    (_, matrix, _, shared) = fig.data
    at = b.SMALL.location([1, 7], [2, 7])
    assert matrix.z[1, 2] == b.SMALL.bank(at[0]) and matrix.z[7, 7] == b.SMALL.bank(at[1])
    assert shared.text.ravel()[at[0]] == "a" and shared.text.ravel()[at[1]] == "b"
    assert np.count_nonzero(~np.isnan(shared.z)) == 2


def test_formulas_tell_wavefronts():
    fig = plots.bank_formulas()
    plain, real, paper = (trace.z for trace in fig.data)
    assert plain.shape == real.shape == (8, 32)
    assert np.array_equal(real[:, :4], paper[:, :4]) and (real[:, 4:] != paper[:, 4:]).all()
    titles = [note.text for note in fig.layout.annotations]
    assert "8 wavefronts" in titles[0] and titles[1].endswith("1 wavefront")


def test_a_map_has_a_row_per_wavefront(in_order, steps, labels):
    orders = {"before": in_order, "after": b.reordered(in_order, steps)}
    asked = {title: b.requests(order, b.SMALL) for title, order in orders.items()}
    fig = plots.bank_maps(asked, b.SMALL, dict(zip(in_order.tolist(), labels, strict=True)))
    parts = zip(asked.items(), fig.data[::2], fig.data[1::2], fig.layout.annotations, strict=True)
    for (title, requests), trace, borders, note in parts:
        waves = sum(b.wavefronts(request, b.SMALL) for request in requests)
        assert trace.z.shape == (waves, 4) and note.text == f"<b>{title}</b><br>{waves} wavefronts"
        written = [word for text in texts(trace) for word in text.split()]
        assert sorted(written) == sorted(labels)
        assert sum(y is None for y in borders.y) == len(requests) - 1
    assert len(fig.data[2].z) < len(fig.data[0].z)


def test_a_step_moves_one_word(in_order, steps, labels):
    for at in (0, 1, 7, len(steps)):
        fig = plots.bucket_step(in_order, steps, labels, at)
        buckets, words = fig.data
        assert np.count_nonzero(buckets.z == 1) == len(steps) - at
        assert len(texts(words)) == at
        assert [shape.visible for shape in fig.layout.shapes] == [at > 0] * 2
        assert len(fig.layout.annotations) == 2 + 8
    with pytest.raises(ValueError, match="at=29: allowed: 0 to 28"):
        plots.bucket_step(in_order, steps, labels, 29)


def test_the_animation_has_a_frame_per_word(in_order, steps, labels):
    fig = plots.bucket_animation(in_order, steps, labels)
    assert [frame.name for frame in fig.frames] == [str(at) for at in range(len(steps) + 1)]
    assert len(fig.layout.sliders[0].steps) == len(fig.frames)
    assert [len(texts(frame.data[1])) for frame in fig.frames] == list(range(len(steps) + 1))


def test_conflicts_have_a_panel_per_pattern_and_one_legend():
    rows = [
        {"pattern": p, "sparsity": s, "order": order, "per_request": 1.5, "bound": 1.2}
        for p, s, order in itertools.product(("random", "row_skewed"), (0.5, 0.8), ORDERS)
    ]
    fig = plots.conflicts_by_sparsity(pd.DataFrame(rows))
    assert len(fig.data) == 8 and len(list(fig.select_xaxes())) == 2
    assert [trace.name for trace in fig.data if trace.showlegend] == [*ORDERS, "fullest bank"]


def test_a_warp_without_a_request_has_an_empty_panel(in_order):
    fig = plots.bank_maps({"all": b.requests(in_order, b.SMALL), "none": []}, b.SMALL)
    assert fig.data[2].z.shape == (0, 4)
    assert fig.layout.annotations[1].text == "<b>none</b><br>0 wavefronts"
