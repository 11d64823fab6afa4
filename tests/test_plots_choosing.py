"""The map of formats that are expected to be the fastest."""

import pytest

from lab_utils import catalog, plots
from lab_utils.backends.choosing import expected
from lab_utils.plots.looks import FORMATS

H200, A100 = catalog.device("H200-SXM"), catalog.device("A100-80GB")
NS, SPARSITIES = (1, 32, 128), (0.3, 0.8)


def test_every_field_is_the_fastest_format() -> None:
    fig = plots.fastest_formats(7168, 7168, [H200, A100], NS, SPARSITIES)
    maps = [trace for trace in fig.data if trace.type == "heatmap"]
    for gpu, shown in zip((H200, A100), maps, strict=True):
        assert (list(shown.x), list(shown.y)) == (["1", "32", "128"], ["30%", "80%"])
        for row, sparsity in enumerate(SPARSITIES):
            best = [expected(7168, 7168, N, sparsity, gpu)[0] for N in NS]
            assert list(shown.text[row]) == [f"{one.speedup:.2f}" for one in best]
            assert list(shown.customdata[row]) == [FORMATS[one.format].label for one in best]


def test_the_legend_has_the_colours_of_the_fields() -> None:
    fig = plots.fastest_formats(7168, 7168, [H200], NS, SPARSITIES)
    (shown,) = (trace for trace in fig.data if trace.type == "heatmap")
    entries = {trace.name: trace.marker.color for trace in fig.data if trace.type == "scatter"}
    steps = dict(enumerate(colour for _, colour in shown.colorscale[::2]))
    for z, names in zip(shown.z, shown.customdata, strict=True):
        assert [steps[number] for number in z] == [entries[name] for name in names]
    assert set(entries) == {name for names in shown.customdata for name in names}


def test_impossible_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="N=256; allowed: 1 to 128"):
        plots.fastest_formats(64, 64, [H200], Ns=[256])
