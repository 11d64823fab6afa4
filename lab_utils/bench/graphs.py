"""Timing on the GPU: launches captured in CUDA graphs, replayed in turns between two events.

A graph costs the CPU as much as one launch, so that the GPU never waits for Python, and a replay
takes long enough for the clock of its events. How many launches it holds, and how often it is
replayed, depends on how slow they are: no contender holds up the others for long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import torch

REPLAY_US = 500.0  # what the launches of a replay should take together
MOST_LAUNCHES = 32  # of a replay
BUDGET_US = 10_000.0  # for all replays of a contender
LEAST_REPLAYS = 5
BUSY = 1, 4, 16  # how often the GPU is kept busy before a launch that is timed alone


def launches_per_replay(time_us: float) -> int:
    """How many launches of `time_us` each make a replay."""
    return max(1, min(MOST_LAUNCHES, round(REPLAY_US / time_us)))


def replays_within_budget(time_us: float, repeats: int) -> int:
    """How many replays, of `repeats` at most, launches of `time_us` each can have."""
    affordable = int(BUDGET_US / (launches_per_replay(time_us) * time_us))
    return min(repeats, max(LEAST_REPLAYS, affordable))


@dataclass
class Replays:
    """`replay()` is `launches` launches; they take turns with others `count` times."""

    replay: Callable[[], object]
    launches: int
    count: int
    _events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)

    def next(self) -> None:
        """Enqueue one more replay between two events."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.replay()
        end.record()
        self._events.append((start, end))

    @property
    def times_us(self) -> list[float]:
        """The time of one launch in each replay, once the GPU has done them all."""
        return [1e3 * start.elapsed_time(end) / self.launches for start, end in self._events]


def time_in_turns(contenders: Sequence[Replays]) -> None:
    """Replay each contender `count` times, all in turns, and wait for the GPU."""
    for turn in range(max(contender.count for contender in contenders)):
        for contender in contenders:
            if turn < contender.count:
                contender.next()
    torch.cuda.current_stream().synchronize()


def timed(function: Callable[[], object], before: Callable[[], object]) -> tuple[object, float]:
    """What `function` returns, and about how many µs of the GPU it takes.

    `before` keeps the GPU busy while Python is on its way to the launch. Where the GPU was ready
    before Python, which would be timed then, all is done again behind more of it.
    """
    for busy in BUSY:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(busy):
            before()
        start.record()
        result = function()
        end.record()
        gpu_waited = start.query()
        end.synchronize()
        if not gpu_waited:
            break
    return result, 1e3 * start.elapsed_time(end)


def capture(functions: Sequence[Callable], launches: int, pool: tuple) -> Callable[[], object]:
    """A CUDA graph of `launches` launches, each of the next function; call it to replay.

    Capture happens on torch's current stream, which must not be the default one. This is
    `torch.cuda.graph` without its cleaning up, which takes longer than all else here. Each function
    runs once before: what a first launch with an operand prepares cannot be captured.
    """
    for function in functions[:launches]:
        function()
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=pool)
    try:
        _launch_in_turn(functions, launches)
    finally:
        graph.capture_end()
    graph.replay()  # the first replay also uploads the graph
    return graph.replay


def uncaptured(functions: Sequence[Callable], launches: int) -> Callable[[], object]:
    """The same from Python, for launches that cannot be captured."""
    return lambda: _launch_in_turn(functions, launches)


def _launch_in_turn(functions: Sequence[Callable], launches: int) -> None:
    for function in islice(cycle(functions), launches):
        function()
