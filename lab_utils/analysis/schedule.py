"""A model of time for the steps of a block: list scheduling on an idealised SM.

Order, dependencies and amounts of the steps come from a trace (analysis.pipeline); every duration
comes from `Costs`, and is a model. One block has the SM for itself.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab_utils.analysis.bitmap_decoding import CLOCKS
from lab_utils.analysis.pipeline import BARRIER, LOADS, WAIT, WGMMA_WAIT, Step

SECTOR = 32  # bytes


@dataclass(frozen=True)
class Costs:
    """Clocks of an SM. The defaults are an H200's, measured where so said, else typical values.

    `latency`: from a load of global memory to its bytes. `bytes_per_clock`: what memory brings an
    SM (measured). `wavefront`: of 128 bytes, of shared memory. `mma`, `popcount`: of a warp
    (measured). `wgmma`: of a warp's quarter of 64 x 64 x 16, at the data sheet's 4,096 operations a
    clock. `issue`: for each request of a trace, in the warp's own scheduler: a GPU issues 4
    to 5 instructions for one (the profiler's count, for both kernels). `start`: until the first
    result of a stage that accesses shared memory.
    Raises ValueError where one of them is negative or not finite, or no byte comes.
    """

    latency: float = 700
    bytes_per_clock: float = 18.5
    wavefront: float = CLOCKS["shared wavefront"]
    mma: float = CLOCKS["mma"]
    wgmma: float = 8
    popcount: float = CLOCKS["popcount"]
    issue: float = 4
    start: float = 30

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (0 <= value < math.inf and (value or name != "bytes_per_clock")):
                least = "more than 0" if name == "bytes_per_clock" else "0 or more"
                raise ValueError(f"{name}={value!r}; allowed: {least}, and finite")

    def of(self, step: Step) -> dict[str, float]:
        """Clocks that a step needs of each unit which the warps share."""
        amounts = step.amounts
        return {
            "memory": amounts["sectors"] * SECTOR / self.bytes_per_clock,
            "shared": amounts["wavefronts"] * self.wavefront,
            "tensor": amounts["mma"] * self.mma + amounts["wgmma"] * self.wgmma,
            "popcount": amounts["popcount"] * self.popcount,
        }


@dataclass(frozen=True)
class Span:
    """A step in time, in clocks: its warp goes on at `end`; its results are there at `ready`."""

    step: Step
    begin: float
    end: float
    ready: float


class _Block:
    """The state of a schedule: where each warp is, what is under way, when units are free."""

    def __init__(self, warps: Sequence[Sequence[Step]], costs: Costs, overlap: bool):
        self.warps, self.costs, self.overlap = warps, costs, overlap
        self.place, self.clock = [0] * len(warps), [0.0] * len(warps)
        self.free: dict[str, float] = defaultdict(float)
        self.spans: list[list[Span]] = [[] for _ in warps]

    def next(self, warp: int) -> Step | None:
        steps = self.warps[warp]
        return steps[self.place[warp]] if self.place[warp] < len(steps) else None

    def start(self, warp: int, step: Step) -> float:
        """When a warp's next step can begin: after what it depends on."""
        needed = [one.ready for one in self.spans[warp] if self._needs(step, one.step)]
        return max([self.clock[warp], *needed])

    def _needs(self, step: Step, before: Step) -> bool:
        if not self.overlap:
            return True  # each stage waits for the one before
        if step.stage == WGMMA_WAIT:
            return before.amounts["wgmma"] > 0
        if step.stage == WAIT:
            return None not in (step.group, before.group) and before.group <= step.group
        return (step.stage, before.stage) == ("extract", "gmem2reg") and step.tile == before.tile

    def run(self, warp: int, step: Step) -> None:
        """Place a step: as early as its warp, what it needs, and the shared units allow."""
        begin = self.start(warp, step)
        if step.stage in (WAIT, WGMMA_WAIT):
            return self._put(warp, Span(step, self.clock[warp], begin, begin))
        issued = begin + step.amounts["requests"] * self.costs.issue
        ends = {"issue": issued}
        for unit, clocks in self.costs.of(step).items():
            if clocks:
                self.free[unit] = ends[unit] = max(begin, self.free[unit]) + clocks
        if step.stage in LOADS:
            ready = max(ends.values()) + self.costs.latency
            return self._put(warp, Span(step, begin, issued, ready))
        if step.amounts["wgmma"]:  # goes on while its warp does
            return self._put(warp, Span(step, begin, issued, max(ends.values()) + self.costs.start))
        end = max(ends.values()) + (self.costs.start if "shared" in ends else 0)
        self._put(warp, Span(step, begin, end, end))

    def meet(self) -> None:
        """All warps are at a barrier: they go on together."""
        together = max(self.start(warp, self.next(warp)) for warp in range(len(self.warps)))
        for warp in range(len(self.warps)):
            step = self.next(warp)
            self._put(warp, Span(step, self.clock[warp], together, together))

    def _put(self, warp: int, span: Span) -> None:
        self.spans[warp].append(span)
        self.clock[warp] = span.end
        self.place[warp] += 1


def schedule(
    warps: Sequence[Sequence[Step]], costs: Costs | None = None, *, overlap: bool = True
) -> list[Span]:
    """Place the steps of all warps in time, in order of each warp, the earliest start first.

    A load and a wgmma occupy their warp only while they are issued; a wait ends when the copies or
    products that it releases have come, `extract` begins when the words of its tile have, a barrier
    ends for all when the last warp is there. `overlap=False`: every step of a warp begins when all
    before are complete.
    Raises ValueError where warps wait at barriers of which others have none.
    """
    block = _Block(warps, costs or Costs(), overlap)
    while any(block.next(warp) for warp in range(len(warps))):
        at = [(warp, step) for warp in range(len(warps)) if (step := block.next(warp))]
        able = [(warp, step) for warp, step in at if step.stage != BARRIER]
        if able:
            block.run(*min(able, key=lambda one: block.start(*one)))
        elif len(at) == len(warps):
            block.meet()
        else:
            raise ValueError(f"warps {[warp for warp, _ in at]} wait at a barrier, others ended")
    return [span for spans in block.spans for span in spans]


def step_clocks(spans: Sequence[Span]) -> float:
    """Clocks from one tile's product to the next: the mean, without the first and last tiles.

    Raises ValueError for fewer than eight tiles.
    """
    ends = dict(_product_ends(spans))
    if len(ends) < 8:
        raise ValueError(f"spans of {len(ends)} tiles; allowed: 8 or more")
    first, last = 2, 2 * len(ends) // 3
    return (ends[last] - ends[first]) / (last - first)


def busy_clocks(warps: Sequence[Sequence[Step]], costs: Costs | None = None) -> dict[str, float]:
    """Clocks per tile for which each unit is busy; no schedule has shorter steps than the longest.

    Steps that no product needs are left out. "issue" is that of the busiest warp.
    """
    costs, clocks, tiles = costs or Costs(), Counter(), set()
    needed = [[one for one in warp if one.tile is not None] for warp in warps]
    for step in (step for warp in needed for step in warp if step.stage != "store"):
        clocks.update(costs.of(step))
        tiles.add(step.tile)
    requests = [sum(step.amounts["requests"] for step in warp) for warp in needed]
    clocks["issue"] = max(requests) * costs.issue
    return {unit: total / len(tiles) for unit, total in clocks.items()}


def _product_ends(spans: Sequence[Span]) -> Iterator[tuple[int, float]]:
    tiles = {span.step.tile for span in spans if span.step.stage == "smem2tc"}
    for tile in sorted(tiles):
        products = (s for s in spans if s.step.stage == "smem2tc" and s.step.tile == tile)
        yield tile, max(span.ready for span in products)
