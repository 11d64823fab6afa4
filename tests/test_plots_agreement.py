"""The figure and the tables that hold the emulator's counts against the profiler's."""

import pandas as pd
import pytest

from lab_utils import plots
from lab_utils.analysis.agreement import COMPARED, agreement, differences

CASE = {"date": "2026-01-01T00:00:00+00:00", "commit": "x", "device": "gpu-a", "driver": "",
        "cuda": "", "M": 256, "K": 512, "N": 16, "sparsity": 0.5, "pattern": "random",
        "dtype": "fp16"}  # fmt: skip


def launch(kernel: str, function: str, split_k: int = 1, **counts: tuple[int, int]) -> list[dict]:
    """Rows of a launch: (emulator, ncu) of some metrics, 8 and 8 of all others."""
    named = {name.replace("_", " "): pair for name, pair in counts.items()}
    return [
        CASE | {"kernel": kernel, "split_k": split_k, "function": function, "metric": metric}
        | dict(zip(("emulator", "ncu"), named.get(metric, (8, 8)), strict=True))
        for metric in COMPARED
    ]  # fmt: skip


@pytest.fixture
def rows() -> pd.DataFrame:
    found = launch("tca_bme_mma", "tca_bme", shared_loads=(8, 6), shuffles=(0, 5), ldmatrix=(0, 0))
    found += launch("tiled_csl_7_shares", "tiled_csl_7_shares", 2)
    return pd.DataFrame(found + launch("tiled_csl_7_shares", "add_partials", 2))


def test_agreement_counts_launches(rows) -> None:
    table = agreement(rows)
    assert list(table.index) == list(COMPARED) and (table.launches == 3).all()
    different = table[table.equal < 3]
    assert list(different.index) == ["shared loads", "shuffles"]
    assert table.loc["shared loads", ["least", "most"]].tolist() == [0.75, 1.0]
    assert table.loc["shuffles", "most"] == float("inf")
    assert "joins" in table.expected["shared loads"] and table.expected["ldmatrix"] == ""


def test_differences_alone(rows) -> None:
    table = differences(rows)
    assert table.shape == (1, 2) and table["shared loads"].tolist() == [-0.25]
    assert differences(rows[rows.split_k.eq(2)]).empty


def test_the_figure_has_a_cell_for_every_count(rows) -> None:
    fig = plots.count_agreement(rows)
    (heat,) = fig.data
    assert list(heat.x) == list(COMPARED)
    assert list(heat.y) == ["<b>TCA-BME</b>", "Tiled-CSL 7. shares of tiles, rows in 2",
                            "Tiled-CSL 7. sums, rows in 2"]  # fmt: skip
    text = pd.DataFrame(heat.text, index=heat.y, columns=heat.x).loc["<b>TCA-BME</b>"]
    assert text[["shared loads", "shuffles", "ldmatrix", "wavefronts"]].tolist() == [
        "-25", "new", "", "="]  # fmt: skip
    assert f"agree in {len(rows) - 2} of {len(rows)} counts" in fig.layout.title.text
    assert set(pd.DataFrame(heat.text).iloc[1:].stack()) == {"="}


def test_one_case_at_a_time(rows) -> None:
    with pytest.raises(ValueError, match="rows hold 2 cases"):
        plots.count_agreement(pd.concat([rows, rows.assign(N=8)]))


def test_full_agreement_has_a_figure() -> None:
    rows = pd.DataFrame(launch("tca_bme_mma", "tca_bme"))
    (heat,) = plots.count_agreement(rows).data
    assert set(pd.DataFrame(heat.text).stack()) == {"="}
    (heat,) = plots.count_agreement(rows[rows.metric.ne("shuffles")]).data
    assert list(heat.x) == [metric for metric in COMPARED if metric != "shuffles"]
