"""Figures of notebook 24 on a tile show what a lane really counts, loads and multiplies."""

from itertools import product

import numpy as np
import plotly.graph_objects as go
import pytest

from lab_utils import plots
from lab_utils.analysis import zero_row_lanes as z
from lab_utils.formats import ZeroRow24
from lab_utils.patterns import random_sparse
from lab_utils.plots.zero_row_24 import COUNTED, EXTRA, FIRST, ROLES, SECOND, UNUSED

W = random_sparse(64, 48, 0.5)
WEIGHTS = W.numpy()[16:32]


@pytest.fixture(scope="module", params=["packed", "pairs"])
def tile(request) -> z.Tile:
    A = ZeroRow24.encode(W, streams=request.param)
    arrays = {name: array.numpy() for name, array in A.arrays.items()}
    return z.tiles_of(arrays, 0, 48)[1]


def cells(fig: go.Figure, name: str) -> np.ndarray:
    (trace,) = [one for one in fig.data if one.name == name and one.type == "heatmap"]
    return np.asarray(trace.z)


def test_a_lane_counts_and_loads_what_is_coloured(tile) -> None:
    for lane, register, step in product((0, 13, 31), range(4), (0, 1)):
        fig = plots.zero_row_lane(tile, WEIGHTS, lane, register, step)
        place, at = z.place(lane, register, step), z.addresses(tile)
        address = at[place.g, place.order]
        stream, pair = cells(fig, "stream")[0], tile.indices[place.g, place.order]
        here = (address - tile.starts[place.g]) // 2
        assert (stream == COUNTED).sum() == here and (cells(fig, "metadata") == COUNTED).sum() == (
            place.order
        )
        wanted = [UNUSED if i == z.UNUSED else role
                  for i, role in zip(pair, (FIRST, SECOND), strict=True)]  # fmt: skip
        assert stream[here : here + 2].tolist() == wanted
        slots = tile.indices[place.g] != z.UNUSED
        values = 2 * slots[:, 1].sum() if tile.pairs else slots.sum()
        assert len(stream) == max(values, here + 2)
        assert f"= {address}: loads" in fig.layout.title.subtitle.text
        weights = cells(fig, "weights")
        for role, index in zip((FIRST, SECOND), pair, strict=True):
            found = np.argwhere(weights == role).tolist()
            column = 3 * (place.group % 8) + index
            assert found == ([] if index == z.UNUSED else [[place.row, column]])


def test_the_legend_names_what_a_cell_shows(tile) -> None:
    for lane, register in product((0, 13, 31), range(4)):
        fig = plots.zero_row_lane(tile, WEIGHTS, lane, register)
        shown = np.concatenate([cells(fig, n).ravel() for n in ("weights", "metadata", "stream")])
        named = [one.name for one in fig.select_traces({"mode": "markers"})]
        assert named == [ROLES[role][1] for role in ROLES if role in shown]


def test_groups_show_each_weight_once(tile) -> None:
    for step in (0, 1):
        fig = plots.zero_row_groups(tile, WEIGHTS, step)
        weights, operand = cells(fig, "weights"), cells(fig, "operand").reshape(16, 8, 4)
        here = WEIGHTS[:, 24 * step : 24 * step + 24]
        assert np.array_equal(weights != 0, here != 0)
        full = (here.reshape(16, 8, 3) != 0).all(-1)
        elsewhere = (weights == EXTRA).reshape(16, 8, 3)
        assert elsewhere[full, 1].all() and full.any()  # and others that spare a zero
        assert not elsewhere[..., [0, 2]].any()
        assert set(np.unique(operand[..., 3])) == {0, UNUSED}
        assert np.isin(operand[..., :3], (0, FIRST, SECOND)).all()


def test_the_row_of_zeros_is_not_row_0_of_b(tile) -> None:
    first = list(plots.zero_row_groups(tile, WEIGHTS).layout.xaxis2.ticktext)
    assert first[0] == "0" and first[3::4] == ["–"] * 8 and first.count("0") == 1


def test_addresses_are_those_of_both_tiles(tile) -> None:
    fig = plots.bmma_addresses([tile, tile], gather=3, lane=9)
    (numbers,) = fig.select_traces({"mode": "text"})
    found = np.array([int(text) for text in numbers.text]).reshape(16, 8)
    expected = z.addresses(tile)[:, 24:].reshape(8, 2, 4).transpose(0, 2, 1).reshape(8, 8)
    assert np.array_equal(found, np.concatenate([expected, expected]))
    assert cells(fig, "presence").shape == (16, 128) and cells(fig, "masks").shape == (8, 128)
