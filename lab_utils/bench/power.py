"""What a GPU's own meters say: energy it has used, and the clock of its multiprocessors (NVML)."""

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import torch


@dataclass(frozen=True)
class PowerMeter:
    """The meters of one GPU."""

    nvml: ModuleType
    gpu: Any  # NVML's handle

    @classmethod
    def of(cls, device: torch.device | str) -> Self:
        """Raises RuntimeError without the package nvidia-ml-py, and where the GPU has no meters."""
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
