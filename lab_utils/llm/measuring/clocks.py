"""Seconds: of a run on all ranks together, and of a part of one on this rank."""

import statistics
import time
from collections.abc import Callable

import torch

from lab_utils.llm.generate import captured
from lab_utils.llm.parallel import Ranks

REPEATS = 5  # of a part


def seconds_of(
    run: Callable[[], object], device: torch.device, repeats: int, ranks: Ranks
) -> float:
    """Seconds of `run`, the device's work included: the mean over ranks, the median of repeats."""
    times = []
    for _ in range(repeats):
        ranks.all_of(0.0, device)  # all start together
        _wait(device)
        start = time.perf_counter()
        run()
        _wait(device)
        times.append(statistics.mean(ranks.all_of(time.perf_counter() - start, device)))
    return statistics.median(times)


def part_seconds(run: Callable[[], object], device: torch.device, graph: bool = False) -> float:
    """Seconds of one run: the median of REPEATS, after one that counts for nothing.

    `graph`: on a GPU, as a CUDA graph, so that nothing waits for Python.
    """
    run()
    if device.type != "cuda":
        return statistics.median(_host_seconds(run) for _ in range(REPEATS))
    _wait(device)
    if graph:
        run = captured(run).replay
    return statistics.median(_device_seconds(run) for _ in range(REPEATS))


def _host_seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _device_seconds(run: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
