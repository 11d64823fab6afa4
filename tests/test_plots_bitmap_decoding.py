"""Figures of notebook 21 show what a lane really decodes."""

import numpy as np
import plotly.graph_objects as go
import pytest

from lab_utils import encode, plots
from lab_utils.analysis import bitmap_decoding as b
from lab_utils.patterns import random_sparse
from lab_utils.plots.bitmap_decoding import ROLES
from lab_utils.plots.cells import short


@pytest.fixture(scope="module")
def strip() -> b.Strip:
    A = encode(random_sparse(64, 64, 0.6), "tca_bme")
    return b.strip_of({name: array.numpy() for name, array in A.arrays.items()}, 0, 2)


def cells(fig: go.Figure, name: str) -> np.ndarray:
    (trace,) = [one for one in fig.data if one.name == name and one.type == "heatmap"]
    return np.asarray(trace.z)


@pytest.mark.parametrize(
    ("lane", "register", "k16"), [(0, 0, 0), (15, 3, 1), (16, 1, 2), (31, 2, 3)]
)
def test_a_lane_counts_what_is_coloured(strip, lane, register, k16) -> None:
    fig = plots.lane_decode(strip, lane, register, k16)
    tile = 4 * k16 + register
    lanes = b.decode_lanes(strip.bits, strip.starts)
    roles = cells(fig, "bitmap")
    low, high, first, second = ((roles == role).sum() for role in (3, 4, 5, 6))
    assert (low, high) == (lanes.low[tile, lane], lanes.high[tile, lane])
    assert (first, second) == (lanes.first[tile, lane], lanes.second[tile, lane])
    assert cells(fig, "values").shape == (1, strip.bits[tile].sum())
    assert f"= {lanes.at[tile, lane]}<br>" in fig.layout.title.subtitle.text


def test_the_fragment_fills_register_by_register(strip) -> None:
    for register in range(4):
        filled = cells(plots.lane_decode(strip, 9, register), "fragment")
        assert (filled != 4).sum() == 64 * (register + 1)
        place = b.fragment_place(9, register, 0)
        assert filled[place] == 5 and (filled >= 5).sum() == 2


def test_the_legend_names_what_a_cell_shows(strip) -> None:
    for lane in (0, 9, 31):
        fig = plots.lane_decode(strip, lane)
        named = {one.name for one in fig.select_traces({"mode": "markers"})}
        own = {"first value", "second value"}
        assert named == own | {ROLES[r][1] for r in ROLES if r in cells(fig, "bitmap")}
        assert ("below, but 0" in named) == (lane > 0)


def test_an_empty_tile_has_no_values() -> None:
    strip = b.Strip(np.zeros((16, 64), bool), np.zeros(16, int), np.zeros(0, np.float16))
    fig = plots.lane_decode(strip, 31, 3, 3)
    assert cells(fig, "values").size == 0
    assert "first = 0, second = 0" in fig.layout.title.subtitle.text
    assert ("0", "0") in [trace.text for trace in fig.select_traces({"mode": "text"})]


def test_small_values_have_a_sign_only_if_they_show_digits() -> None:
    values = (0.0, -0.0, -0.003, 0.003, -0.04, 0.04, -1.26)
    assert [short(value) for value in values] == ["0", "0", ".00", ".00", "-.04", ".04", "-1.3"]


def test_bitmaps_are_numbered_as_they_are_stored() -> None:
    fig = plots.bitmap_nesting(np.ones((128, 192), dtype=bool))
    groups, tiles, bits = fig.select_traces({"mode": "text"})
    assert groups.text == ("<b>0</b>", "<b>1</b>", "<b>3</b>", "<b>4</b>")
    assert tiles.text[:4] == ("<b>0</b>", "<b>2</b>", "<b>4</b>", "<b>6</b>")
    assert sorted(tiles.text) == sorted(bits.text)


def test_layout_names_every_lane_in_every_register() -> None:
    lanes, registers = plots.fragment_layout().select_traces({"mode": "text"})
    assert len(registers.text) == 4
    assert sorted(map(int, lanes.text)) == sorted(list(range(32)) * 4)


def test_budget_has_a_line_for_memory() -> None:
    needs = {s: b.clocks_needed(2 * 64, 5 * 64, 16, 600, 64 * 64) for s in (0.5, 0.9)}
    assert needs[0.5]["popcount"] == 4 and needs[0.5]["shared wavefront"] == 5
    fig = plots.decode_budget(needs, {0.5: 3.9, 0.9: 1.1})
    assert [bar.name for bar in fig.data if bar.type == "bar"] == list(needs[0.5])
    assert [line.y0 for line in fig.layout.shapes] == [3.9, 1.1]
