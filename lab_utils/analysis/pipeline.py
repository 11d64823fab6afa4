"""The software pipeline of a load-as-sparse kernel, read off a trace of one block.

A trace (analysis.kernel_trace.Request of a watched block) says what each warp does, in what order,
how much of it, and which wait releases which copies. Time is the business of analysis.schedule.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab_utils.analysis.kernel_trace import Request

# Device functions of kernels/spmm, by the stage that they are part of (kernels/common/stages.cuh).
STAGE_OF = {
    "offset": "gmem2reg",
    "gmem2reg": "gmem2reg",
    "rst_smem": "rst_smem",
    "scatter": "extract",
    "extract": "extract",
    "locate": "ld_sparse",
    "ld_sparse": "ld_sparse",
    "ld_dense": "ld_dense",
    "run_starts": "decode",
    "decode": "decode",
    "load_a": "smem2tc",
    "load_b": "smem2tc",
    "smem2tc": "smem2tc",
    "smem2tc_wgmma": "smem2tc",
    "multiply": "smem2tc",
    "round_to": "store",
}
WAIT, WGMMA_WAIT, BARRIER = "wait", "wait for wgmma", "barrier"
LOADS = ("gmem2reg", "ld_sparse", "ld_dense")  # of global memory; they go on in the background
COMPUTES = ("decode", "smem2tc")  # one tile's, interleaved
OFFSETS = ("tile_offsets", "gt_offset")  # where tiles lie: counted with the next load of a tile
# What must be there for the whole block before a stage may begin.
PRODUCERS = {"extract": ("rst_smem",), "smem2tc": ("ld_sparse", "ld_dense", "extract")}


@dataclass(frozen=True)
class Step:
    """What one warp does at a stretch: a stage for one tile, or a wait, or a barrier.

    `tile` counts the tiles of the block; None where no product needs the step. `amounts` sums
    requests, wavefronts, sectors, mma, wgmma, popcount. `group`: of a load by cp.async, which of
    the warp's groups of copies it is in; of a wait, the last group that it releases (None: none).
    """

    warp: int
    stage: str
    tile: int | None = None
    amounts: Counter = field(default_factory=Counter)
    group: int | None = None


class _Tiles:
    """Which tile a request is for: products count barriers, loads and stores lead to a product."""

    def __init__(self, requests: Iterable[Request], starts: Sequence[int]):
        self.starts = starts
        self.epoch: dict[int, int] = {}  # of each request: barriers of its warp before it
        reads, passed, products = defaultdict(set), Counter(), set()
        for request in requests:
            operation, now = request.place.operation, passed[request.warp]
            self.epoch[id(request)] = now
            passed[request.warp] += operation == "barrier"
            if operation in ("ldmatrix", "shared_load", "wgmma"):
                for chunk in _chunks(request):
                    reads[chunk].add(now)
            if operation in ("mma", "wgmma"):
                products.add(now)
        self.reads = {chunk: sorted(epochs) for chunk, epochs in reads.items()}
        self.number = {epoch: i for i, epoch in enumerate(sorted(products))}

    def of(self, request: Request) -> int | None:
        now, operation = self.epoch[id(request)], request.place.operation
        if operation == "global_load":
            return bisect_right(self.starts, min(o for o in request.offsets if o is not None)) - 1
        if operation in ("cp_async", "shared_store"):  # the first product that reads what it writes
            later = (self.reads.get(chunk, ()) for chunk in _chunks(request))
            epochs = [e[i] for e in later if (i := bisect_right(e, now)) < len(e)]
            return self.number[min(epochs)] if epochs else None
        return self.number.get(now)


def _chunks(request: Request) -> set[int]:
    """The 16-byte chunks of shared memory that a request touches."""
    return {at // 16 for at in request.shared if at is not None}


def steps(requests: Sequence[Request], starts: Sequence[int] = ()) -> list[list[Step]]:
    """The steps of each warp, in its order, of a watched block whose first tile is tile 0.

    `starts`: where each tile begins in Tiled-CSL's array of words, in bytes.
    Raises ValueError for kernels that multiply neither by mma nor by dense wgmma.
    """
    tiles, warps = _Tiles(requests, starts), defaultdict(list)
    if not tiles.number:
        raise ValueError(
            "no request multiplies by mma or by dense wgmma; allowed: blocks of tiled_csl, tca_bme"
        )
    for request in requests:
        warps[request.warp].append(request)
    return [_steps_of(warps[warp], tiles) for warp in sorted(warps)]


def _steps_of(requests: list[Request], tiles: _Tiles) -> list[Step]:
    done: list[Step] = []
    groups, carried = 0, Counter()
    for request in requests:
        warp, operation = request.warp, request.place.operation
        if operation == "commit":
            groups += 1
        elif operation == "wait":
            last = groups - request.pending - 1
            done.append(Step(warp, WAIT, group=last if last >= 0 else None))
        elif operation in ("wgmma_wait", "barrier"):
            done.append(Step(warp, WGMMA_WAIT if operation == "wgmma_wait" else BARRIER))
        elif request.array in OFFSETS:
            carried += _amounts(request)
        elif operation != "warp_barrier":
            stage = STAGE_OF.get(request.place.function, request.place.function)
            group = groups if operation == "cp_async" else None
            step = Step(warp, stage, tiles.of(request), _amounts(request), group)
            if stage in ("gmem2reg", "ld_sparse"):
                step.amounts.update(carried)
                carried.clear()
            _join(done, step)
    return done


def _join(done: list[Step], step: Step) -> None:
    """Add a step, or its amounts to the last one's if that is the same."""
    if done and replace(done[-1], amounts=step.amounts) == step:
        done[-1].amounts.update(step.amounts)
    else:
        done.append(step)


def _amounts(request: Request) -> Counter:
    counts, operation = request.counts, request.place.operation
    amounts = Counter(requests=1, wavefronts=counts.wavefronts, sectors=counts.sectors)
    if operation in ("mma", "wgmma", "popcount"):
        amounts[operation] = 1
    return amounts


def releases(warp: Sequence[Step]) -> list[dict[str, object]]:
    """What each wait of a warp releases, and which loads it leaves under way: a row per wait."""
    rows, issued, released = [], [], -1
    for step in warp:
        if step.stage in LOADS and step.group is not None:
            issued.append(step)
        if step.stage != WAIT:
            continue
        last = released if step.group is None else step.group
        done = [one for one in issued if released < one.group <= last]
        left = [one for one in issued if one.group > last]
        rows.append({"wait": len(rows), "releases": _named(done), "still under way": _named(left)})
        released = last
    return rows


def _named(loads: Iterable[Step]) -> str:
    return ", ".join(f"{one.stage} {one.tile}" for one in loads)


def leads(warps: Iterable[Sequence[Step]]) -> dict[str, int]:
    """How many tiles ahead of the product each stage runs, in the steady state, in trace order."""
    seen: dict[str, Counter] = defaultdict(Counter)
    for warp in warps:
        for part in _iterations(warp):
            now = next((s.tile for s in part if s.stage == "smem2tc"), None)
            for step in part:
                if now is not None and step.tile is not None and step.stage != "store":
                    seen[step.stage][step.tile - now] += 1
    return {stage: count.most_common(1)[0][0] for stage, count in seen.items()}


def _iterations(warp: Sequence[Step]) -> list[list[Step]]:
    """Steps between barriers."""
    parts: list[list[Step]] = [[]]
    for step in warp:
        parts[-1].append(step)
        if step.stage == BARRIER:
            parts.append([])
    return parts


def turns(warp: Sequence[Step]) -> list[dict[str, list[int]]]:
    """Tiles that each stage of a warp works on, between one barrier and the next."""
    found = []
    for part in _iterations(warp):
        tiles: dict[str, list[int]] = {}
        for step in part:
            if step.tile is not None and step.tile not in tiles.setdefault(step.stage, []):
                tiles[step.stage].append(step.tile)
        found.append(tiles)
    return found


def loads_ahead(now: Mapping[str, int], tiles: int) -> dict[str, int]:
    """Leads `now`, changed so that loads of global memory are `tiles` further than what uses them.

    0: nothing is ahead of anything, so that one buffer of each kind is enough.
    """
    if tiles == 0:
        return dict.fromkeys(now, 0)
    words = tiles + now.get("extract", 0)  # needed a turn earlier, by extract
    changed = {"gmem2reg": words, "ld_sparse": tiles, "ld_dense": tiles}
    return dict(now) | {stage: lead for stage, lead in changed.items() if stage in now}


def rearranged(warps: Sequence[Sequence[Step]], ahead: Mapping[str, int]) -> list[list[Step]]:
    """The same steps with every stage `ahead` by so many tiles; a wait and a barrier per tile.

    Where a stage needs what others made in the same turn of the loop, because they are no more
    ahead than it is, another wait and barrier come between: so it is without double buffers.
    """
    return [_rearranged(warp, ahead) for warp in warps]


def _rearranged(warp: Sequence[Step], ahead: Mapping[str, int]) -> list[Step]:
    work: dict[tuple[str, int], list[Step]] = defaultdict(list)
    for step in warp:
        if step.tile is not None and step.stage != "store":
            work[_unit(step.stage), step.tile].append(step)
    tiles = 1 + max(step.tile for step in warp if step.stage == "smem2tc")
    units = [stage for stage in _order(ahead) if stage not in COMPUTES or stage == "smem2tc"]
    number, done = warp[0].warp, []
    products = [Step(number, WGMMA_WAIT)] if any(s.stage == WGMMA_WAIT for s in warp) else []
    for turn in range(-max(ahead.values()), tiles):
        done += [Step(number, WAIT, group=turn), *products, Step(number, BARRIER)]
        for i, stage in enumerate(units):
            tile = turn + ahead[stage]
            made = [p for p in units[:i] if p in PRODUCERS.get(stage, ())]
            if any(ahead[p] == ahead[stage] for p in made) and 0 <= tile < tiles:
                done += [Step(number, WAIT, group=tile), Step(number, BARRIER)]
            copied = stage in ("ld_sparse", "ld_dense")
            for step in work.get((stage, tile), ()) if 0 <= tile < tiles else ():
                done.append(replace(step, group=tile if copied else None))
    return done


def _unit(stage: str) -> str:
    return "smem2tc" if stage in COMPUTES else stage


def _order(ahead: Mapping[str, int]) -> list[str]:
    """Stages in the order of one turn: what takes a stage's place comes after it."""
    first = ("gmem2reg", "rst_smem", "ld_sparse", "ld_dense", "extract", "decode", "smem2tc")
    order = [stage for stage in first if stage in ahead]
    for stage, user in (("gmem2reg", "extract"), ("rst_smem", "smem2tc")):
        if stage in ahead and ahead[stage] > ahead["extract"]:
            order.remove(stage)
            order.insert(order.index(user) + 1, stage)
    return order
