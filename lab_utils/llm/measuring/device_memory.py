"""Memory of the device that a model runs on: what it may have, what it took, and too little."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lab_utils import machine
from lab_utils.analysis.memory import CONTEXT_BYTES


def capacity(device: torch.device | str) -> float:
    """Bytes that a model can have: of a GPU, those that no tensor has; of the host, all, or an
    equal share of them for each rank that `torchrun` has started here.

    Of several GPUs, NCCL may have taken already what the planner will count again.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return machine.memory_bytes() / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + kept + CONTEXT_BYTES  # which this process has taken already


def reset_peak(device: torch.device) -> None:
    """Forget what was needed before, and give back what torch keeps of it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> float:
    """The most memory that this process took on the GPU since `reset_peak`; NaN for the CPU.

    That of torch's allocator, with the private memory of graphs, and what the process has outside
    of it now: the driver's context, libraries and the kernels' code.
    """
    if device.type != "cuda":
        return math.nan
    return torch.cuda.max_memory_reserved(device) + outside_bytes(device)


def outside_bytes(device: torch.device) -> float:
    """What this process has on the GPU outside of torch's allocator.

    By the driver's list of processes. Where this process is not in it, as in a container, by what
    is taken on the whole GPU: then no other program may use it.
    """
    free, everything = torch.cuda.mem_get_info(device)
    taken = machine.gpu_processes(device).get(os.getpid(), everything - free)
    return taken - torch.cuda.memory_reserved(device)


@contextmanager
def out_of_memory_named(name: str, case: dict[str, int]) -> Iterator[None]:
    """Turns torch's long error into one that says what was too large."""
    try:
        yield
    except RuntimeError as error:
        of_host = "can't allocate memory" in str(error)  # for which torch has no type
        if not (of_host or isinstance(error, torch.OutOfMemoryError)):
            raise
        torch.cuda.empty_cache()
        what = ", ".join(f"{key}={value}" for key, value in case.items())
        raise RuntimeError(f"{name}, {what}: out of memory: {error}") from error
