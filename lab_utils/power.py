"""What a GPU's own meters say: energy it has used, and the clock of its multiprocessors (NVML)."""

import importlib
import itertools
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, Self

import torch

EVERY_S = 0.02  # between two readings of a `MeterWatch`


class MeterError(RuntimeError):
    """A meter failed, or told too little in the time that it had."""


def check_metered(device: torch.device | str) -> None:
    """Raise ValueError for a device without meters."""
    if torch.device(device).type != "cuda":
        raise ValueError(f"device={str(device)!r}; allowed: cuda, since only GPUs have meters")


@dataclass(frozen=True)
class PowerMeter:
    """The meters of one GPU; reading them raises NVML's own error where that fails."""

    nvml: ModuleType
    gpu: Any  # NVML's handle

    @classmethod
    def of(cls, device: torch.device | str) -> Self:
        """Raises ValueError for other devices than GPUs, RuntimeError without the package
        nvidia-ml-py, and where the GPU has no meters.
        """
        check_metered(device)
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError as error:
            raise RuntimeError(
                "energy is measured by NVML: pip install nvidia-ml-py, or pip install -e '.[gpu]'"
            ) from error
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        try:
            nvml.nvmlInit()
            meter = cls(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid))
            meter.joules(), meter.sm_mhz()
        except nvml.NVMLError as error:
            raise RuntimeError(f"{device}: this GPU does not tell its energy: {error}") from error
        return meter

    def joules(self) -> float:
        """Used since the driver was loaded."""
        return self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu) / 1e3

    def sm_mhz(self) -> float:
        """The clock of the multiprocessors now."""
        return float(self.nvml.nvmlDeviceGetClockInfo(self.gpu, self.nvml.NVML_CLOCK_SM))


class Reading(NamedTuple):
    """What the meters said at one time."""

    seconds: float
    joules: float
    sm_mhz: float

    @classmethod
    def of(cls, meter: PowerMeter) -> Self:
        """Raises NVML's own error where it fails."""
        return cls(time.perf_counter(), meter.joules(), meter.sm_mhz())


def watts_of(readings: Sequence[Reading]) -> float:
    """Mean power between the first and the last time that the meter of energy went on.

    It does so ten to fifty times a second: between others, the time would not belong to the energy.
    Raises MeterError where it did not go on twice.
    """
    steps = [b for a, b in itertools.pairwise(readings) if b.joules != a.joules]
    if len(steps) < 2:
        raise MeterError("the GPU's meter of energy hardly moved; measure for more seconds")
    return (steps[-1].joules - steps[0].joules) / (steps[-1].seconds - steps[0].seconds)


def watts_and_mhz(readings: Sequence[Reading]) -> tuple[float, float]:
    """Mean power and mean clock; raises what `watts_of` does."""
    return watts_of(readings), statistics.mean(reading.sm_mhz for reading in readings)


@dataclass
class MeterWatch:
    """Reads a meter again and again, in a thread of its own, while its `with` block runs."""

    meter: PowerMeter
    readings: list[Reading] = field(default_factory=list)
    failed: Exception | None = None

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def told(self) -> tuple[float, float]:
        """Mean power in W, mean clock in MHz; MeterError where the meter failed or stood still."""
        if self.failed is not None:
            raise MeterError(f"the GPU's meters failed: {self.failed}") from self.failed
        return watts_and_mhz(self.readings)

    def _watch(self) -> None:
        try:
            while True:
                self.readings.append(Reading.of(self.meter))
                if self._over.wait(EVERY_S):
                    return
        except Exception as error:  # whoever asks what was told hears of it
            self.failed = error
