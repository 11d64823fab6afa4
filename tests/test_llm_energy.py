"""Energy of generations: rows of `opt_energy`, several GPUs, meters that fail or are not there."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import opt_models
import pytest
import torch
from click.testing import CliRunner
from opt_ranks import joined, start

from lab_utils import machine, power, results
from lab_utils.llm.checkpoint import Random
from lab_utils.llm.cli import main
from lab_utils.llm.measuring import Sweep, Transformers, energy
from lab_utils.llm.measuring.energy import Energy, energy_line
from lab_utils.llm.parallel import Ranks
from lab_utils.power import Reading

CPU = torch.device("cpu")
ROW = {name: name for name in results.COLUMNS["opt"]} | {"batch": 8, "output": 512, "seconds": 4.0}
STEPS = ("--repeats", "20", "--no-breakdown")  # long enough for a meter of tests


class Meter:
    """Goes on by 3 J at each reading."""

    def __init__(self, fails_at: int = sys.maxsize):
        self.used, self.fails_at = 0.0, fails_at

    def joules(self) -> float:
        if self.used == 3 * self.fails_at:
            raise OSError("the GPU is lost")
        self.used += 3
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


def watched(hear, watts: float, ranks=None) -> Energy:
    """What a meter of so many watts has told, for 3 s."""
    one = Energy(CPU, hear, *[] if ranks is None else [ranks])
    one.watched.readings.extend(Reading(second, watts * second, 1500.0) for second in range(4))
    return one


def test_energy_is_power_times_the_seconds_of_one_generation(meter) -> None:
    heard: list[dict] = []
    watched(heard.append, 600.0).told(ROW)
    (row,) = heard
    assert tuple(row) == results.COLUMNS["opt_energy"]
    assert (row["joules"], row["watts"], row["sm_mhz"]) == (2400.0, 600.0, 1500.0)
    assert energy_line(row) == "  2400 J, 585.9 mJ a token; 600 W for each GPU, at 1500 MHz"


def test_joules_are_those_of_all_gpus_and_watts_of_one(meter) -> None:
    heard: list[dict] = []
    ranks = SimpleNamespace(all_of=lambda value, device: [value, value / 2])
    watched(heard.append, 600.0, ranks).told(ROW)
    assert (heard[0]["joules"], heard[0]["watts"], heard[0]["sm_mhz"]) == (3600.0, 450.0, 1125.0)


@pytest.mark.parametrize(
    ("mine", "others", "said"),
    [
        (0.0, 600.0, "ranks [0]: the GPU's meter of energy hardly moved"),
        (600.0, math.nan, "ranks [1]"),
        (0.0, math.nan, "ranks [0, 1]: the GPU's"),
    ],
)
def test_a_meter_that_stands_still_gives_no_row(meter, mine, others, said: str) -> None:
    """On all ranks, if it does on one."""
    heard: list[dict] = []
    told: list[str] = []
    ranks = SimpleNamespace(all_of=lambda value, device: [value, others])
    watched(heard.append, mine, ranks).told(ROW, told.append)
    assert not heard and told[0].startswith("no row of energy from the meters of " + said)


def test_stored_rows_are_of_stored_generations() -> None:
    """The same run, and joules that are watts of all GPUs for its seconds."""
    rows, generations = results.measured("opt_energy"), results.measured("opt")
    same = ["date", "commit", "device", *results.OPT_CASE, "seconds"]
    assert len(rows.merge(generations, on=same)) == len(rows) > 0
    expected = rows.watts * rows.gpus * rows.seconds
    assert rows.joules.to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-3)


def test_without_a_listener_nothing_is_watched() -> None:
    one = Energy(CPU, None)
    with one.watched:
        pass
    one.told(ROW)


def with_a_meter(ranks: Ranks, folder: Path, has: tuple[bool, bool], fails: int) -> None:
    """Write what one of two ranks, of which the last one's meter fails, hears and says."""
    power.EVERY_S = 0.001
    mine = Meter(fails if ranks.rank else sys.maxsize)
    kind = SimpleNamespace(of=lambda device: mine if has[ranks.rank] else no_meter())
    energy.PowerMeter = kind
    heard, told = [], []
    sweep = Sweep(Random(opt_models.config()), dtype=torch.float32, prompt=4, output=8, repeats=20,
                  breakdown=False, energy=heard.append, ranks=ranks, tell=told.append)  # fmt: skip
    try:
        rows = len(list(sweep.rows(["dense"], [1])))
    except RuntimeError as error:
        rows = str(error)
    (folder / f"{ranks.rank}").write_text(json.dumps([rows, len(heard), told]))


def no_meter() -> None:
    raise RuntimeError("this GPU has none")


def of_two_ranks(folder: Path, *how: object) -> list[list]:
    joined(start(2, with_a_meter, opt_models.config(), folder, *how))
    return [json.loads((folder / f"{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("fails", [0, 4])
def test_the_rows_of_two_ranks_survive_a_meter_that_fails(tmp_path, fails: int) -> None:
    for rank, (rows, heard, told) in enumerate(of_two_ranks(tmp_path, (True, True), fails)):
        assert (rows, heard) == (1, 0)
        why = ": the GPU's meters failed: the GPU is lost" if rank else ""
        assert told[-1] == f"no row of energy from the meters of ranks [1]{why}"


def test_two_ranks_say_which_one_has_no_meter(tmp_path) -> None:
    said = [rows for rows, *_ in of_two_ranks(tmp_path, (True, False), sys.maxsize)]
    expected = ["GPUs of ranks [1] tell no energy; allowed: such as do", "this GPU has none"]
    assert said == expected


def test_a_sweep_asks_for_meters_before_anything_is_loaded(monkeypatch) -> None:
    monkeypatch.setattr(Sweep, "_model", lambda *_: pytest.fail("a model was loaded"))
    sweep = Sweep(Random(opt_models.config()), energy=[].append)
    with pytest.raises(ValueError, match="device='cpu'; allowed: cuda, since only GPUs have"):
        next(sweep.rows(["dense"], [1]))


def test_transformers_has_energy_too(meter) -> None:
    pytest.importorskip("transformers")
    heard: list[dict] = []
    model = Transformers(opt_models.config(), dtype=torch.float32)
    row = model.measure(1, 4, 8, repeats=3, energy=heard.append)
    assert heard[0]["format"] == "transformers" and heard[0]["seconds"] == row["seconds"]


@pytest.fixture
def asked(tmp_path, monkeypatch) -> list[str]:
    """The command for a small model in two batches."""
    monkeypatch.setattr(
        "lab_utils.llm.checkpoint.opened", lambda *_, **place: Random(opt_models.config(), **place)
    )
    return ["measure", "--model", "OPT-125M", "--format", "dense", "--batch", "1,2", "--prompt",
            "4", "--output", "8", *STEPS, "--energy", "--device", "cpu", "--folder",
            str(tmp_path)]  # fmt: skip


def test_the_command_keeps_both_rows(meter, asked, tmp_path) -> None:
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    generation, energies = (results.measured(name, tmp_path) for name in ("opt", "opt_energy"))
    same = [name for name in results.COLUMNS["opt_energy"] if name in generation]
    assert generation[same].equals(energies[same]) and len(energies) == 2
    assert done.output.count("mJ a token") == 2 and (energies.joules > 0).all()


def test_the_command_asks_first_whether_both_can_be_kept(meter, asked, tmp_path) -> None:
    file = tmp_path / machine.device_name("cpu") / "opt_energy.csv"
    file.parent.mkdir()
    file.write_text("other,columns\n")
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2 and "opt_energy.csv" in done.output
    assert not (file.parent / "opt.csv").exists() and file.read_text() == "other,columns\n"


def test_the_command_says_that_a_cpu_has_no_meters(asked, tmp_path) -> None:
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2 and "since only GPUs have meters" in done.output
    assert not any(tmp_path.iterdir())
