"""Pipelines read off traces, and the list scheduler that gives them a time."""

from collections import Counter

import pytest
import torch

from lab_utils import encode, spmm
from lab_utils.analysis import pipeline as p
from lab_utils.analysis import schedule as s
from lab_utils.backends import emulator
from lab_utils.patterns import random_sparse

TILES = 10
Warps = list[list[p.Step]]


def traced(format: str, N: int = 8) -> Warps:
    """The steps of the block that has the first rows, `TILES` tiles."""
    A = encode(random_sparse(100, 64 * TILES, 0.8), format)
    with emulator.recording(watch=0) as traces:
        spmm(A, torch.ones(64 * TILES, N).half(), backend="emulator")
    offsets = A.arrays.get("tile_offsets", torch.zeros(1, dtype=torch.int32))
    return p.steps(traces[0].requests, (16 * offsets[:TILES]).tolist())


@pytest.fixture(scope="module")
def tiled_csl() -> Warps:
    return traced("tiled_csl")


@pytest.fixture(scope="module")
def tca_bme() -> Warps:
    return traced("tca_bme")


def test_kernels_without_such_products_are_refused() -> None:
    with pytest.raises(ValueError, match="no request multiplies by mma or by dense wgmma; allowed"):
        traced("zero_row_24_strips", N=32)


def test_wgmma_goes_on_while_its_warps_do() -> None:
    """On Hopper, Tiled-CSL's products of 33 to 64 columns: three buffers, cleared a tile later."""
    warps = traced("tiled_csl", N=64)
    ahead = {"ld_dense": 1, "extract": 1, "gmem2reg": 2, "smem2tc": 0, "rst_smem": 2}
    assert p.leads(warps) == ahead
    assert p.turns(warps[0])[0]["rst_smem"] == [0, 1, 2]
    spans = s.schedule(warps)
    products = [one for one in spans if one.step.amounts["wgmma"]]
    assert {one.step.stage for one in products} == {"smem2tc"}
    assert all(one.step.amounts["wgmma"] == 8 and one.ready > one.end for one in products)
    for waits, mine in zip(of_warps(spans, p.WGMMA_WAIT), of_warps(spans, "smem2tc"), strict=True):
        done = [one.end for one in waits[1:]]  # the first has nothing to wait for
        assert len(done) == TILES and all(a >= b.ready for a, b in zip(done, mine, strict=True))
    assert s.step_clocks(s.schedule(p.rearranged(warps, ahead))) == pytest.approx(
        s.step_clocks(spans), rel=0.02
    )


def of_warps(spans: list[s.Span], stage: str) -> list[list[s.Span]]:
    """The spans of a stage by warp, each in order."""
    return [[one for one in spans if (one.step.warp, one.step.stage) == (w, stage)]
            for w in range(4)]  # fmt: skip


def test_each_stage_of_a_trace_runs_once_per_tile_and_warp(tiled_csl, tca_bme) -> None:
    for warps, stages in ((tiled_csl, {"rst_smem", "ld_dense", "extract", "smem2tc", "gmem2reg"}),
                          (tca_bme, {"ld_sparse", "ld_dense", "decode", "smem2tc"})):  # fmt: skip
        assert len(warps) == 4
        named = [(one.stage, one.tile) for warp in warps for one in warp if one.tile is not None]
        assert set(named) - {("store", TILES - 1)} == {(x, t) for x in stages for t in range(TILES)}
        barriers = {sum(one.stage == p.BARRIER for one in warp) for warp in warps}
        assert len(barriers) == 1


def test_leads_are_those_of_the_sources(tiled_csl, tca_bme) -> None:
    assert p.leads(tca_bme) == {"ld_sparse": 2, "ld_dense": 2, "decode": 0, "smem2tc": 0}
    ahead = {"ld_dense": 1, "extract": 1, "gmem2reg": 3, "smem2tc": 0, "rst_smem": 2}
    assert p.leads(tiled_csl) == ahead
    assert p.leads(traced("tiled_csl", N=128)) == ahead | {"gmem2reg": 2}  # fewer registers
    assert p.loads_ahead(ahead, 3) == ahead | {"ld_dense": 3, "gmem2reg": 4}
    assert set(p.loads_ahead(ahead, 0).values()) == {0}


def test_turns_begin_with_what_fills_the_buffers(tiled_csl, tca_bme) -> None:
    assert p.turns(tiled_csl[0])[:3] == [
        {"gmem2reg": [0, 1], "ld_dense": [0], "rst_smem": [0, 1]},
        {"extract": [0], "gmem2reg": [2]},
        {"ld_dense": [1], "extract": [1], "gmem2reg": [3], "smem2tc": [0], "rst_smem": [2]},
    ]
    assert p.turns(tca_bme[0])[1] == {
        "ld_sparse": [2], "ld_dense": [2], "decode": [0], "smem2tc": [0]}  # fmt: skip


def test_waits_release_the_tile_that_is_next(tiled_csl, tca_bme) -> None:
    first, *_, last = p.releases(tca_bme[0])
    assert first == {"wait": 0, "releases": "ld_sparse 0, ld_dense 0",
                     "still under way": "ld_sparse 1, ld_dense 1"}  # fmt: skip
    assert last["still under way"] == "" and last["wait"] == TILES - 1
    assert p.releases(tiled_csl[0])[3]["releases"] == "ld_dense 3"


def test_rearranged_as_it_is_takes_as_long(tiled_csl, tca_bme) -> None:
    for warps in (tiled_csl, tca_bme):
        own = s.step_clocks(s.schedule(warps))
        again = p.rearranged(warps, p.leads(warps))
        assert s.step_clocks(s.schedule(again)) == pytest.approx(own, rel=0.02)
        assert work(again) == work(warps)


def work(warps: Warps) -> Counter:
    """What is done for tiles, whatever the order."""
    total: Counter = Counter()
    for step in (step for warp in warps for step in warp if step.tile is not None):
        if step.stage != "store":
            total.update({(step.warp, step.stage, step.tile): step.amounts["requests"]})
    return total


def test_overlap_and_buffers_pay_until_a_unit_is_full(tiled_csl, tca_bme) -> None:
    for warps in (tiled_csl, tca_bme):
        ahead = p.leads(warps)
        clocks = [s.step_clocks(s.schedule(p.rearranged(warps, p.loads_ahead(ahead, k))))
                  for k in (0, 1, 2, 3)]  # fmt: skip
        assert clocks[0] > 1.3 * clocks[1] > 1.3 * clocks[3]
        assert clocks[3] >= max(s.busy_clocks(warps).values())
        serial = s.step_clocks(s.schedule(warps, overlap=False))
        assert serial > clocks[1] > 0
        slow, fast = (s.step_clocks(s.schedule(warps, s.Costs(latency=x))) for x in (5000, 100))
        assert slow > 2 * fast


def step(stage: str, warp: int = 0, tile: int | None = 0, group: int | None = None, **amounts: int):
    return p.Step(warp, stage, tile, Counter(amounts), group)


COSTS = s.Costs(latency=100, bytes_per_clock=32, wavefront=1, mma=2, popcount=2, issue=1, start=10)


def test_a_wait_ends_when_its_copies_have_come() -> None:
    load = step("ld_dense", group=0, requests=4, sectors=20)
    product = step("smem2tc", requests=3, wavefronts=5, mma=1)
    spans = s.schedule([[load, step(p.WAIT, group=0), product]], COSTS)
    assert [(x.begin, x.end, x.ready) for x in spans] == [
        (0, 4, 120), (4, 120, 120), (120, 135, 135)]  # fmt: skip
    early = s.schedule([[load, step(p.WAIT, group=None), product]], COSTS)
    assert early[2].begin == 4


def test_extract_needs_the_words_of_its_tile() -> None:
    loads = [step("gmem2reg", tile=t, requests=1, sectors=1) for t in (0, 1)]
    spans = s.schedule([[*loads, step("extract", tile=0, requests=2)]], COSTS)
    assert [x.begin for x in spans] == [0, 1, 101]
    serial = s.schedule([[*loads, step("extract", tile=0, requests=2)]], COSTS, overlap=False)
    assert [x.begin for x in serial] == [0, 101, 202]


def test_warps_share_units_and_meet_at_barriers() -> None:
    warps = [[step("smem2tc", w, requests=1, wavefronts=50), step(p.BARRIER, w)] for w in (0, 1)]
    spans = s.schedule(warps, COSTS)
    products = [x.end for x in spans if x.step.stage == "smem2tc"]
    assert products == [60, 110]  # one behind the other, then the start of a stage
    assert {x.end for x in spans if x.step.stage == p.BARRIER} == {110}


def test_what_cannot_be_scheduled_or_timed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"warps \[0\] wait at a barrier, others ended"):
        s.schedule([[step(p.BARRIER)], []], COSTS)
    with pytest.raises(ValueError, match="spans of 1 tiles; allowed: 8 or more"):
        s.step_clocks(s.schedule([[step("smem2tc", requests=1)]], COSTS))
