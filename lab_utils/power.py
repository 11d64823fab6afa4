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

EVERY_S = 0.02  # between two looks of a `Watch`


class StillMeterError(RuntimeError):
    """A meter told too little in the time that it had."""


def check_metered(device: torch.device | str) -> None:
    """Raise ValueError for a device without meters."""
    if torch.device(device).type != "cuda":
        raise ValueError(f"device={str(device)!r}; allowed: cuda, since only GPUs have meters")


@dataclass(frozen=True)
class PowerMeter:
    """The meters of one GPU."""

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


class Look(NamedTuple):
    """What the meters said at one time."""

    seconds: float
    joules: float
    sm_mhz: float

    @classmethod
    def at(cls, meter: PowerMeter) -> Self:
        return cls(time.perf_counter(), meter.joules(), meter.sm_mhz())


def watts_of(looks: Sequence[Look]) -> float:
    """Mean power between the first and the last time that the meter of energy went on.

    It does so ten to fifty times a second: between others, the time would not belong to the energy.
    Raises StillMeterError where it did not go on twice.
    """
    steps = [b for a, b in itertools.pairwise(looks) if b.joules != a.joules]
    if len(steps) < 2:
        raise StillMeterError("the GPU's meter of energy hardly moved; measure for more seconds")
    return (steps[-1].joules - steps[0].joules) / (steps[-1].seconds - steps[0].seconds)


@dataclass
class Watch:
    """Looks at a meter again and again, in a thread of its own, while its `with` block runs."""

    meter: PowerMeter
    looks: list[Look] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def watts(self) -> float:
        """Mean power; raises StillMeterError where the time was too short for it."""
        return watts_of(self.looks)

    def sm_mhz(self) -> float:
        """Mean clock."""
        return statistics.mean(look.sm_mhz for look in self.looks)

    def _watch(self) -> None:
        while True:
            self.looks.append(Look.at(self.meter))
            if self._over.wait(EVERY_S):
                return
