"""Meters of a GPU: what power is by them, a watch that looks by itself, what is refused."""

import sys
import time

import pytest

from lab_utils import power
from lab_utils.power import Look, PowerMeter, StillMeterError, Watch, watts_of


class Meter:
    """Of something that takes 100 W, told in steps of 1 J, at 1200 and 1000 MHz in turns."""

    def __init__(self) -> None:
        self.start, self.looks = time.perf_counter(), 0

    def joules(self) -> float:
        return 100 * (time.perf_counter() - self.start) // 1

    def sm_mhz(self) -> float:
        self.looks += 1
        return 1000.0 if self.looks % 2 == 0 else 1200.0


def test_power_is_that_between_steps_of_the_meter() -> None:
    joules = [0, 0, 5, 5, 5, 25, 25, 35, 35, 35]  # 10 ms each
    looks = [Look(i / 100, j, 1000) for i, j in enumerate(joules)]
    assert watts_of(looks) == pytest.approx(30 / 0.05)
    with pytest.raises(StillMeterError, match="measure for more seconds"):
        watts_of(looks[:5])


def test_a_watch_looks_while_its_block_runs(monkeypatch) -> None:
    monkeypatch.setattr(power, "EVERY_S", 0.002)
    with Watch(Meter()) as watch:
        time.sleep(0.3)
    seen = len(watch.looks)
    assert watch.watts() == pytest.approx(100, rel=0.2)
    assert watch.sm_mhz() == pytest.approx(1100, abs=50)
    time.sleep(0.05)
    assert len(watch.looks) == seen


def test_a_watch_of_no_time_has_looked_once() -> None:
    with Watch(Meter()) as watch:
        pass
    assert watch.sm_mhz() == 1200
    with pytest.raises(StillMeterError, match="hardly moved"):
        watch.watts()


def test_a_cpu_has_no_meters() -> None:
    with pytest.raises(ValueError, match="device='cpu'; allowed: cuda, since only GPUs"):
        PowerMeter.of("cpu")


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(RuntimeError, match="pip install nvidia-ml-py"):
        PowerMeter.of("cuda")
