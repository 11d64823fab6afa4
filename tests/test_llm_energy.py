"""Energy of generations: rows of `opt_energy`, several GPUs, meters that stand still or miss."""

import math
from types import SimpleNamespace

import opt_models
import pytest
import torch
from click.testing import CliRunner

from lab_utils import power, results
from lab_utils.llm.__main__ import main
from lab_utils.llm.checkpoint import Random
from lab_utils.llm.measuring import Sweep, energy
from lab_utils.llm.measuring.energy import Energy, energy_line
from lab_utils.power import Look

CPU = torch.device("cpu")
ROW = {name: name for name in results.COLUMNS["opt"]} | {"batch": 8, "output": 512, "seconds": 4.0}


class Meter:
    """Goes on by 3 J at each look."""

    def __init__(self, step: float = 3.0):
        self.step, self.used = step, 0.0

    def joules(self) -> float:
        self.used += self.step
        return self.used

    def sm_mhz(self) -> float:
        return 1500.0


@pytest.fixture
def meter(monkeypatch) -> Meter:
    """The meter of every device, also of a CPU."""
    one = Meter()
    monkeypatch.setattr(energy, "PowerMeter", SimpleNamespace(of=lambda device: one))
    monkeypatch.setattr(power, "EVERY_S", 0.001)
    return one


def looked(watts: float) -> list[Look]:
    """What a watch has seen of so many watts."""
    return [Look(seconds, watts * seconds, 1500.0) for seconds in range(4)]


def test_energy_is_power_times_the_seconds_of_one_generation(meter) -> None:
    heard: list[dict] = []
    one = Energy(CPU, heard.append)
    one.watched.looks.extend(looked(600.0))
    one.told(ROW)
    (row,) = heard
    assert tuple(row) == results.COLUMNS["opt_energy"]
    assert (row["joules"], row["watts"], row["sm_mhz"]) == (2400.0, 600.0, 1500.0)
    assert energy_line(row) == "  2400 J, 585.9 mJ a token; 600 W for each GPU, at 1500 MHz"


def test_joules_are_those_of_all_gpus_and_watts_of_one(meter) -> None:
    heard: list[dict] = []
    ranks = SimpleNamespace(all_of=lambda value, device: [value, value / 2])
    one = Energy(CPU, heard.append, ranks)
    one.watched.looks.extend(looked(600.0))
    one.told(ROW)
    assert (heard[0]["joules"], heard[0]["watts"], heard[0]["sm_mhz"]) == (3600.0, 450.0, 1125.0)


@pytest.mark.parametrize("others", [600.0, math.nan])
def test_a_meter_that_stands_still_gives_no_row(meter, others: float) -> None:
    """On all ranks, if it does on one."""
    heard: list[dict] = []
    said: list[str] = []
    ranks = SimpleNamespace(all_of=lambda value, device: [value, others])
    one = Energy(CPU, heard.append, ranks)
    one.watched.looks.extend(looked(0.0 if others == 600 else 600.0))
    one.told(ROW, said.append)
    assert not heard and said == ["4 s are too short for meters of energy: no row of them"]


def test_without_a_listener_nothing_is_watched() -> None:
    one = Energy(CPU, None)
    with one.watched:
        pass
    one.told(ROW)


def test_a_sweep_asks_for_meters_before_anything_is_loaded(monkeypatch) -> None:
    monkeypatch.setattr(Sweep, "_model", lambda *_: pytest.fail("a model was loaded"))
    sweep = Sweep(Random(opt_models.config()), energy=[].append)
    with pytest.raises(ValueError, match="device='cpu'; allowed: cuda, since only GPUs have"):
        next(sweep.rows(["dense"], [1]))


def test_the_command_keeps_both_rows(meter, tmp_path, monkeypatch) -> None:
    asked = ["measure", "--model", "OPT-125M", "--format", "dense", "--batch", "1", "--prompt", "4",
             "--output", "8", "--repeats", "20", "--no-breakdown", "--energy",
             "--folder", str(tmp_path)]  # fmt: skip
    monkeypatch.setattr(
        "lab_utils.llm.checkpoint.opened", lambda *_, **place: Random(opt_models.config(), **place)
    )
    done = CliRunner().invoke(main, [*asked, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    generation, energies = (
        results.measured("opt", tmp_path),
        results.measured("opt_energy", tmp_path),
    )
    same = [name for name in results.COLUMNS["opt_energy"] if name in generation]
    assert generation[same].equals(energies[same])
    assert "mJ a token" in done.output and (energies.joules > 0).all()


def test_the_command_says_that_a_cpu_has_no_meters(tmp_path) -> None:
    asked = ["measure", "--model", "OPT-125M", "--energy", "--device", "cpu", "--folder"]
    done = CliRunner().invoke(main, [*asked, str(tmp_path)])
    assert done.exit_code == 2 and "since only GPUs have meters" in done.output
    assert not any(tmp_path.iterdir())
