"""Measuring on the GPU: how much is launched, what is left out, and rows of real kernels."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from gpu_formats import kernels_of, working

from lab_utils import accuracy, baselines, bench, machine, ops, results
from lab_utils.analysis.variants import VARIANTS
from lab_utils.backends import cuda as backend
from lab_utils.baselines import Baseline, Operand
from lab_utils.bench import Case, Weights, cuda, graphs, grid, sweep

CASE = Case(256, 512, 8, 0.6, "fp16")
CASES = list(grid([(256, 512), (128, 130)], [1, 8, 17], [0.5, 0.9], dtype="fp16"))


class Fake(Baseline):
    """torch's product, in as many launches, right or wrong, as a test wants it."""

    dense = True

    def __init__(self, name: str = "fake", off: float = 0.0, capturable: bool = True):
        self.name, self.off, self.capturable, self.bound = name, off, capturable, []

    def problem(self, W, N):
        return "N=1: fake takes more" if N == 1 else None

    def prepare(self, W):
        return Operand({"W": W}, W)

    def bind(self, operand, B):
        self.bound.append(operand)
        return lambda: operand.tensors["W"] @ B + self.off


class Greedy(Fake):
    def prepare(self, W):
        return torch.empty(1 << 46, dtype=torch.uint8, device=W.device)


# --- without a GPU ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time_us", "launches", "replays"),
    [(1, 32, 15), (5, 32, 15), (50, 10, 15), (166, 3, 15), (400, 1, 15), (1e3, 1, 10), (1e5, 1, 5)],
)
def test_slow_kernels_are_launched_less_often(time_us, launches, replays) -> None:
    assert graphs.launches_per_replay(time_us) == launches
    assert graphs.replays_within_budget(time_us, 15) == replays
    assert graphs.replays_within_budget(time_us, 3) == 3


class FakeEvent:
    """A clock that ticks a millisecond at each event."""

    now = 0

    def __init__(self, enable_timing: bool):
        assert enable_timing

    def record(self) -> None:
        FakeEvent.now += 1
        self.at = FakeEvent.now

    def elapsed_time(self, end: "FakeEvent") -> float:
        return float(end.at - self.at)


def test_all_take_turns_until_they_have_had_theirs(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    calls: list[str] = []
    stream = SimpleNamespace(synchronize=lambda: calls.append("waited"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    both = [
        graphs.Replays(lambda name=name: calls.append(name), launches, count)
        for name, launches, count in (("a", 2, 3), ("b", 1, 2))
    ]
    graphs.time_in_turns(both)
    assert calls == ["a", "b", "a", "b", "a", "waited"]
    assert both[0].times_us == [500.0] * 3 and both[1].times_us == [1000.0] * 2


@pytest.mark.parametrize(("late", "befores"), [(0, 1), (1, 1 + 4), (9, 1 + 4 + 16)])
def test_what_python_is_late_for_is_timed_again(monkeypatch, late: int, befores: int) -> None:
    """`late` launches reach a GPU that has waited for them."""
    waited = iter([True] * late + [False] * 9)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(FakeEvent, "query", lambda _: next(waited), raising=False)
    monkeypatch.setattr(FakeEvent, "synchronize", lambda _: None, raising=False)
    kept_busy: list[int] = []
    assert graphs.timed(lambda: "C", lambda: kept_busy.append(1)) == ("C", 1000.0)
    assert len(kept_busy) == befores


def test_launches_rotate_over_the_copies() -> None:
    calls: list[int] = []
    functions = [lambda i=i: calls.append(i) for i in range(3)]
    graphs.uncaptured(functions, launches=5)()
    assert calls == [0, 1, 2, 0, 1]


def test_all_ways_are_measured_where_columns_are_many() -> None:
    def ways(format: str, N: int, sm90: bool) -> list[str | None]:
        found = cuda.ours(["tca_bme", "lane_24_strips", "tca_bme"], N, sm90)
        return [one.way for one in found if one.name == format]

    all_ways = ["fused", "tiles", "decoded"]
    for format in ("tca_bme", "lane_24_strips"):
        assert ways(format, 64, sm90=True) == [None]
        assert ways(format, 65, sm90=True) == all_ways
    assert ways("tca_bme", 65, sm90=False) == ["fused", "decoded"]


@pytest.mark.parametrize("name", ["zero_row_24", "zero_row_24_packed"])
def test_a_variant_is_a_kernel_of_its_own(monkeypatch, name: str) -> None:
    monkeypatch.setattr(backend, "format_problem", lambda format, _: {"zero_row_24": None}[format])
    monkeypatch.setattr(backend, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(backend, "_failed_selections", lambda *_: 0)
    monkeypatch.setattr(ops, "explain", lambda A, B, **_: backend.plan(A, B))
    weights = Weights(Case(64, 96, 8, 0.8, "fp16"))
    ways = {one.way: one for one in cuda.ours([name], 65, sm90=True)}
    assert list(ways) == ["fused", "decoded"]
    one = ways["fused"]
    operand = one.prepare(weights.dense)
    assert one.problem(weights.dense, 8) is None and operand.A.variant == name
    assert one.plan(operand, weights.columns(8)).kernel == f"{name}_mma"
    assert ways["decoded"].plan(operand, weights.columns(8)).kernel == f"{name}_decoded"


def test_what_cannot_run_or_is_wrong_is_left_out(monkeypatch) -> None:
    monkeypatch.setattr(graphs, "timed", lambda function, before: (function(), 50.0))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    case, left_out = Case(64, 96, 2, 0.5), {}
    ways = [Fake("right"), Fake("wrong", off=1.0)]
    weights = Weights(case)

    def contenders(case: Case) -> list[str]:
        hear = lambda case, kernel, why: left_out.update({kernel: why})  # noqa: E731
        return [one.kernel for one in cuda.checked(case, weights, ways, hear)]

    assert contenders(case) == ["right"]
    assert isinstance(left_out["wrong"], AssertionError)
    assert "64x96, N=2, sparsity 0.5 (random), bf16: kernel wrong is wrong: 128 of 128" in str(
        left_out["wrong"]
    )
    assert len(ways[0].bound) == 10  # a copy for each launch of a replay
    assert contenders(Case(64, 96, 1, 0.5)) == []
    assert left_out["right"] == "N=1: fake takes more"


def test_what_a_gpu_cannot_measure_is_refused() -> None:
    cuda.check([*backend.formats, *VARIANTS], None, ())
    for formats, names, isas, message in (
        (["coo"], None, (), "format='coo': not multiplied on the GPU; allowed: tiled_csl"),
        (["csr"], None, (), "format='csr': not multiplied on the GPU; allowed: tiled_csl, tca_bme"),
        ((), ["blas"], (), "baseline='blas': unknown; allowed: cublas"),
        ((), ["csr_simt"], (), r"baselines=\['csr_simt'\]: rows need a dense product; .*cublaslt"),
        ((), None, ["avx2"], r"isas=\['avx2'\]: of the CPU"),
    ):
        with pytest.raises(ValueError, match=message):
            cuda.check(formats, names, isas)


# --- with one -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(small_caches: None) -> pd.DataFrame:
    return sweep(CASES, backend.formats, device="cuda", repeats=3)


@pytest.mark.gpu
def test_rows_of_the_gpu(rows: pd.DataFrame) -> None:
    assert set(rows.columns) == set(results.COLUMNS["spmm"]) and not rows.isna().any().any()
    assert (rows.device == machine.device_name("cuda")).all()
    assert rows.driver.str.match(r"\d+\.\d+").all() and (rows.cuda == torch.version.cuda).all()
    assert rows.relative_error.between(0, 2 * accuracy.ROUNDING[torch.float16]).all()
    for (M, _, N, *_), of_case in rows.groupby(list(results.CASE)):
        assert of_case.date.nunique() == 1 and of_case.kernel.is_unique
        wanted = {"cublas_mm", "cublas_linear", "cublaslt", "csr_simt"}
        wanted |= {"gemv"} if N == 1 else set()
        wanted |= {"two_four", "sparta"} if M == 256 else set()
        assert set(of_case.kernel) >= wanted
        for format in working():  # one of its ways, as planned
            assert of_case.kernel.isin(kernels_of(format)).sum() == 1
        dense = of_case[of_case.kernel.str.match("cublas|gemv")]
        assert (of_case.dense_us == dense.time_us.min()).all()
        assert np.allclose(of_case.speedup, of_case.dense_us / of_case.time_us, rtol=2e-4)
    ours = rows[rows.backend == "cuda"]
    kernels = {kernel for format in working() for kernel in kernels_of(format)}
    assert set(ours.kernel) <= kernels and (ours.split_k > 0).all()
    assert set(rows.backend) == {"cuda", "baseline"}


@pytest.mark.gpu
def test_rows_of_all_ways() -> None:
    case, names = Case(500, 520, 130, 0.6, "fp16"), working()
    rows = bench.measure(case, names, device="cuda", baselines=["cublas_mm"], repeats=2)
    found = {row["kernel"]: row["encoded_bytes"] for row in rows}
    ways = [kernels_of(name) for name in names]
    assert list(found) == ["cublas_mm", *itertools.chain(*ways)]
    assert all(len({found[kernel] for kernel in kernels}) == 1 for kernels in ways)


@pytest.mark.gpu
@pytest.mark.parametrize("capturable", [True, False])
def test_a_baseline_of_any_kind_is_timed(monkeypatch, capturable: bool) -> None:
    fake = Fake(capturable=capturable)
    monkeypatch.setitem(baselines.BASELINES, "fake", fake)
    (row,) = bench.measure(CASE, [], device="cuda", baselines=["fake"], repeats=2)
    assert row["kernel"] == "fake" and row["time_us"] == row["dense_us"] > 0
    assert len({operand.tensors["W"].data_ptr() for operand in fake.bound}) == len(fake.bound)


@pytest.mark.gpu
def test_what_fails_on_the_gpu_is_left_out_or_raised(monkeypatch) -> None:
    for fake in (Fake("wrong", off=1.0), Greedy("greedy")):
        monkeypatch.setitem(baselines.BASELINES, fake.name, fake)
    names, left_out = ["cublas_mm", "wrong", "greedy"], {}

    def hear(case: Case, name: str, why: Exception) -> None:
        left_out[name] = str(why)

    options = {"device": "cuda", "baselines": names, "repeats": 1}
    rows = bench.measure(CASE, ["tca_bme"], leave_out=hear, **options)
    dense, ours = rows
    assert dense["kernel"] == "cublas_mm" and ours["kernel"] in kernels_of("tca_bme")
    assert "kernel wrong is wrong: 2048 of 2048 elements" in left_out["wrong"]
    assert f"{CASE}: kernel greedy ran out of GPU memory" in left_out["greedy"]
    with pytest.raises(AssertionError, match="kernel wrong is wrong"):
        bench.measure(CASE, [], device="cuda", baselines=names)


@pytest.mark.gpu
def test_encoders_are_measured_on_the_gpu() -> None:
    found = bench.measure_encoders(CASE, ["tiled_csl", "tca_bme"], device="cuda", repeats=2)
    assert [(row["format"], row["options"]) for row in found] == [
        ("tiled_csl", "reorder=True"), ("tiled_csl", "reorder=False"), ("tca_bme", "")]  # fmt: skip
    assert all(row.keys() == set(results.COLUMNS["encode"]) for row in found)
    assert all(row["device"] == machine.device_name("cuda") for row in found)
