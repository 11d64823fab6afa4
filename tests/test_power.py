"""Meters of a GPU: what power is by them, a watch that reads by itself, what is refused."""

import sys
import threading
import time

import pytest
from fake_meter import Meter

from lab_utils import power
from lab_utils.power import MeterError, MeterWatch, PowerMeter, Reading, watts_of


def test_power_is_that_between_steps_of_the_meter() -> None:
    joules = [0, 0, 5, 5, 5, 25, 25, 35, 35, 35]  # 10 ms each
    readings = [Reading(i / 100, j, 1000) for i, j in enumerate(joules)]
    assert watts_of(readings) == pytest.approx(30 / 0.05)
    with pytest.raises(MeterError, match="measure for more seconds"):
        watts_of(readings[:5])


def test_a_watch_reads_while_its_block_runs(monkeypatch) -> None:
    monkeypatch.setattr(power, "EVERY_S", 0.002)
    with MeterWatch(Meter()) as watch:
        time.sleep(0.3)
    watts, mhz = watch.told()
    assert watts == pytest.approx(100, rel=0.2) and mhz == pytest.approx(1100, abs=50)


@pytest.mark.parametrize("raises", [False, True])
def test_the_thread_of_a_watch_ends_with_its_block(raises: bool) -> None:
    before = threading.active_count()
    try:
        with MeterWatch(Meter()):
            assert threading.active_count() == before + 1
            if raises:
                raise KeyError
    except KeyError:
        assert raises
    assert threading.active_count() == before


def test_a_watch_of_no_time_tells_nothing() -> None:
    with MeterWatch(Meter()) as watch:
        pass
    assert len(watch.readings) == 1
    with pytest.raises(MeterError, match="hardly moved"):
        watch.told()


@pytest.mark.parametrize("fails_at", [0, 20])
def test_a_meter_that_fails_has_told_nothing(monkeypatch, fails_at: int) -> None:
    """Also where it has told enough before: that would be power of a part of the time."""
    monkeypatch.setattr(power, "EVERY_S", 0.002)
    with MeterWatch(Meter(fails_at)) as watch:
        time.sleep(0.2)
    assert len(watch.readings) == fails_at
    with pytest.raises(MeterError, match="the GPU's meters failed: the GPU is lost"):
        watch.told()


def test_a_cpu_has_no_meters() -> None:
    with pytest.raises(ValueError, match="device='cpu'; allowed: cuda, since only GPUs"):
        PowerMeter.of("cpu")


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(RuntimeError, match="pip install nvidia-ml-py"):
        PowerMeter.of("cuda")
