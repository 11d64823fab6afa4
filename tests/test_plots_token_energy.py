"""The figure of what a token costs holds its rows."""

import pandas as pd
import pytest

from lab_utils import plots, results


def row(format: str, batch: int, joules: float, **changes) -> dict:
    """A row of `opt_energy`."""
    sparsity = 0.0 if format == "dense" else 0.8
    numbers = {"seconds": joules / 500, "joules": joules, "watts": 500.4, "sm_mhz": 1234.5}
    found = {
        "date": "2026-11-21T00:00:00", "commit": "c", "device": "h200", "driver": "", "cuda": "",
        "model": "OPT-30B", "gpus": 1, "format": format, "sparsity": sparsity, "weights": "random",
        "dtype": "fp16", "batch": batch, "prompt": 64, "output": 512, **numbers, **changes,
    }  # fmt: skip
    assert tuple(found) == results.COLUMNS["opt_energy"]
    return found


@pytest.fixture
def rows() -> pd.DataFrame:
    return pd.DataFrame(
        [row("tca_bme", 8, 2048), row("dense", 8, 4096), row("dense", 64, 8192),
         row("dense", 8, 1, model="OPT-66B")]
    )  # fmt: skip


def test_bars_are_joules_by_tokens(rows) -> None:
    fig = plots.token_energy(rows, "OPT-30B")
    (bar,) = fig.data
    assert dict(zip(bar.y, bar.x, strict=True)) == {
        "dense, 1 GPU, batch 8": 1000,
        "TCA-BME 80 %, 1 GPU, batch 8": 500,
        "dense, 1 GPU, batch 64": 250,
    }
    assert bar.text[1] == "<b>500 mJ</b>   500 W, 1234 MHz"
    assert len(set(bar.marker.color)) == 2
    assert "h200, 2026-11-21, random weights, 64 + 512 tokens" in fig.layout.title.subtitle.text


def test_rows_of_two_devices_are_refused(rows) -> None:
    rows.loc[0, "device"] = "a100"
    with pytest.raises(ValueError, match="rows of the devices"):
        plots.token_energy(rows, "OPT-30B")


def test_a_model_without_rows_is_refused(rows) -> None:
    with pytest.raises(ValueError, match="model='OPT-13B': no row with its energy"):
        plots.token_energy(rows, "OPT-13B")


def test_bars_that_differ_in_something_else_say_so() -> None:
    """Or two of them would lie in one place."""
    cases = [{}, {"weights": "checkpoint"}, {"prompt": 1024}, {"dtype": "bf16"}]
    fig = plots.token_energy(pd.DataFrame([row("dense", 8, 100, **c) for c in cases]), "OPT-30B")
    assert set(fig.data[0].y) == {
        "dense, 1 GPU, batch 8, random weights, fp16, 64 tokens",
        "dense, 1 GPU, batch 8, checkpoint weights, fp16, 64 tokens",
        "dense, 1 GPU, batch 8, random weights, fp16, 1024 tokens",
        "dense, 1 GPU, batch 8, random weights, bf16, 64 tokens",
    }
