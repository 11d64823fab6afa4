"""What choosing a way for a product asks of a GPU, from data/devices.yaml."""

import functools
from typing import NamedTuple, Self

import torch

from lab_utils.catalog import Device, device, devices

FITTED = "H200-SXM"  # that costs are fitted to; it stands for GPUs that are not in the file, too
# GPUs of which rows are stored that tests hold costs to; of which formats there are none.
HELD = {FITTED: (), "H100-SXM": ("coded_strips",)}


class Gpu(NamedTuple):
    """The datasheet's peak; the bandwidth as we measured it, if we did; clocks of all its
    multiprocessors, at the rate behind the peak.
    """

    title: str
    peak_tflops: float
    bandwidth_gb_s: float
    clocks_per_us: float

    @classmethod
    def of(cls, known: Device) -> Self:
        """That of an entry of data/devices.yaml."""
        bandwidth = known.measured.get("bandwidth_gb_s", known.bandwidth_gb_s)
        clocks = known.sms * known.tensor_clock_mhz
        return cls(known.title, known.peak_tflops, bandwidth, clocks)


@functools.cache
def fitted() -> Gpu:
    """The GPU that costs are fitted to."""
    return Gpu.of(device(FITTED))


@functools.cache
def gpu_of(place: torch.device) -> Gpu:
    """What data/devices.yaml knows of that GPU; else of the one that the costs are fitted to."""
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else ""
    found = (one for one in devices().values() if _is(one.name, name))
    return next(map(Gpu.of, found), fitted())


def _is(entry: str, name: str) -> bool:
    """Whether "A100-80GB" is NVIDIA's "NVIDIA A100-SXM4-80GB": has all its words with digits."""
    words = name.replace("-", " ").split()
    numbers = [word for word in entry.split("-") if any(map(str.isdigit, word))]
    return all(word in words for word in numbers)
