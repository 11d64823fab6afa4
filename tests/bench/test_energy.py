"""Rows of `energy`: what they hold, how a load runs, what is refused, and the GPU."""

import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from fake_meter import Meter

from lab_utils import bench, results
from lab_utils.backends import cuda
from lab_utils.bench import energy
from lab_utils.cli import main

CASE = bench.Case(M=300, K=520, N=8, sparsity=0.7, dtype="fp16")
NUMBERS = {"rested_us": 9.0, "time_us": 10.0, "millijoules": 6.5, "watts": 650.0, "sm_mhz": 1400.0}


def load(seconds: float, launches: int = 4) -> tuple[energy.Load, list[str]]:
    """A load whose replays take so long, and what has been called."""
    called = []

    def replay() -> None:
        called.append("replay")
        time.sleep(seconds)

    def mark():
        number = called.count("replay")
        return lambda: called.append(f"wait for {number}")

    return energy.Load(replay, launches, 1e6 * seconds / launches, mark), called


def test_a_load_counts_what_it_launched() -> None:
    one, called = load(0.005)
    launches, elapsed = one.run(0.1, lambda: called.append("look"))
    burst = ["replay", "replay", "look"]  # of 10 ms
    assert called[:8] == [*burst, "wait for 0", *burst, "wait for 2"]
    assert called[-1] == f"wait for {called.count('replay')}"
    assert launches == 4 * called.count("replay") and elapsed >= 0.1
    assert launches / elapsed == pytest.approx(4 / 0.005, rel=0.3)


def test_a_slow_launch_runs_at_least_once() -> None:
    one, called = load(0.03, launches=1)
    assert one.run(0.001)[0] == 1 and called == ["replay", "wait for 0", "wait for 1"]


def test_energy_is_that_of_a_launch(monkeypatch) -> None:
    monkeypatch.setattr(energy, "WARM_S", 0.01)
    one, _ = load(0.002)
    found = one.sustained(Meter(), 0.5)
    assert found["watts"] == pytest.approx(100, rel=0.15)
    assert found["millijoules"] == pytest.approx(found["time_us"] * found["watts"] / 1e3)
    assert 1000 <= found["sm_mhz"] <= 1200


def test_rows_stand_beside_the_best_dense_product(monkeypatch) -> None:
    stamp = {"date": "2026-01-01T00:00:00+00:00", "commit": "1", "device": "gpu-a", "driver": "5",
             "cuda": "13"}  # fmt: skip
    monkeypatch.setattr(energy, "stamp", lambda device: stamp)

    def measured(kernel: str, dense: bool, **changed: float) -> tuple:
        one = SimpleNamespace(kernel=kernel, backend="cuda", split_k=1.0, encoded_bytes=7,
                              relative_error=1e-4, dense=dense)  # fmt: skip
        return one, NUMBERS | changed

    found = [measured("a", True, time_us=22, rested_us=20), measured("b", True, time_us=21),
             measured("c", False)]  # fmt: skip
    rows = energy._rows(CASE, torch.device("cuda"), found)
    assert all(set(row) == set(results.COLUMNS["energy"]) for row in rows)
    dense = {(row["dense_us"], row["dense_rested_us"], row["dense_millijoules"]) for row in rows}
    assert dense == {(21, 9, 6.5)}
    text = energy.energy_summary(pd.DataFrame(rows)).splitlines()
    assert text[0] == "gpu-a, fp16, random zeros, without a pause"
    words = ["300x520", "70%", "8", "c", "10", "9", "6.5", "650", "1400", "2.10"]
    assert text[2].split() == words
    with pytest.raises(RuntimeError, match="no dense product was measured"):
        energy._rows(CASE, torch.device("cuda"), found[2:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "cpu"}, "device='cpu'; allowed: cuda, since only GPUs have meters"),
        ({"seconds": 0.1}, "seconds=0.1; allowed: 0.5 to 60"),
        ({"baselines": ["csr_simt"]}, "rows need a dense product"),
        ({"formats": ["coo"]}, "format='coo'"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    arguments = {"formats": ["tca_bme"], "device": "cuda"} | change
    with pytest.raises(ValueError, match=message):
        energy.measure_energy(CASE, **arguments)


@pytest.mark.skipif(cuda.problem() is None, reason="says why only where there is no GPU")
def test_lab_energy_says_what_is_missing() -> None:
    done = CliRunner().invoke(main, ["energy", "--shape", "64x64"])
    assert done.exit_code == 1 and "nothing can be measured on a GPU here" in done.output


@pytest.mark.gpu
def test_lab_energy_keeps_rows(tmp_path: Path) -> None:
    arguments = ["energy", "--shape", "4096x4096", "--N", "8", "--sparsity", "0.5", "--format",
                 "tca_bme", "--seconds", "0.5", "--output", str(tmp_path)]  # fmt: skip
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    rows = results.measured("energy", tmp_path)
    assert set(rows.kernel) == {"cublas_linear", "tca_bme_mma"}
    assert (rows.millijoules > 0).all() and (rows.sm_mhz > 100).all()
    assert ((rows.watts * rows.time_us / 1e3) / rows.millijoules).between(0.99, 1.01).all()
