"""Choosing among ways to launch the same product by timing them, as libraries' own searches do."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from statistics import median

import torch

LAUNCHES = 4  # in one CUDA graph
REPLAYS = 5


def fastest(candidates: Sequence[Callable[[], object]]) -> int:
    """Which candidate is launched fastest; those that raise RuntimeError are passed over.

    The time of a candidate is the median of REPLAYS graphs of LAUNCHES each. Raises RuntimeError,
    with what was wrong with each, where none runs.
    """
    times, errors = [], []
    for number, candidate in enumerate(candidates):
        try:
            times.append((_milliseconds(candidate), number))
        except RuntimeError as error:
            errors.append(f"{number}: {error}")
    if not times:
        raise RuntimeError(f"none of {len(candidates)} candidates runs: {'; '.join(errors)}")
    return min(times, key=itemgetter(0))[1]


def _milliseconds(run: Callable[[], object]) -> float:
    run()  # what cannot be launched at all says so here, and not while it is captured
    torch.cuda.synchronize()
    graph = _captured(run)
    graph.replay()
    times = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return median(times)


def _captured(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """LAUNCHES of `run` as a graph; without the cleaning up that torch.cuda.graph begins with."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        try:
            for _ in range(LAUNCHES):
                run()
        finally:
            graph.capture_end()
    return graph
