"""How bench takes its times, and what it makes of them: order, arithmetic, the kernel that runs."""

from types import SimpleNamespace

import pytest
import torch

from lab_utils import ops
from lab_utils.backends import cpu
from lab_utils.bench import Case, Weights, rows
from lab_utils.bench import cpu as bench
from lab_utils.bench.cpu import Contender
from lab_utils.bench.operands import Turns
from lab_utils.patterns import random_sparse

CASE = Case(M=100, K=200, N=3, sparsity=0.5)


def contender(name: str, copies: int, calls: list[str]) -> Contender:
    return Contender(
        kernel=name,
        backend="cpu",
        encoded_bytes=8,
        copies=Turns(range(copies)),
        run=lambda copy: calls.append(f"{name}{copy}"),
    )


def test_every_copy_is_warmed_up_and_then_all_take_turns() -> None:
    calls: list[str] = []
    both = [contender("a", 2, calls), contender("b", 3, calls)]
    bench._time_in_turns(both, repeats=3)
    assert calls == [*("a0", "a1", "b0", "b1", "b2"), *("a0", "b0", "a1", "b1", "a0", "b2")]
    assert [len(one.times_us) for one in both] == [3, 3]


def test_a_row_is_the_arithmetic_of_its_times() -> None:
    measured = contender("csr_avx2", 1, [])
    measured.encoded_bytes, measured.times_us = 50_000, [10.0, 20.0, 30.0, 40.0, 50.0]
    row = rows.row(CASE, measured, memory_gb_per_s=5.0, best_dense_us=60.0)
    assert (row["p10_us"], row["time_us"], row["p90_us"]) == (14.0, 30.0, 46.0)
    assert row["gb_per_s"] == pytest.approx(50_000 / 30e-6 / 1e9, rel=1e-4)
    assert row["byte_limit_fraction"] == pytest.approx((50_000 / 5e9) / 30e-6, rel=1e-4)
    assert row["tflops"] == pytest.approx(2 * 100 * 200 * 3 / 30e-6 / 1e12, rel=1e-4)
    assert row["speedup"] == 2.0


def test_bandwidth_is_a_piece_over_the_median_of_its_times(monkeypatch) -> None:
    monkeypatch.setattr(bench, "cold_buffer", lambda _: torch.ones(1, 64, dtype=torch.uint8))
    memory = bench.Memory()
    memory.times_us = [1.0, 1e3, 9e9]
    assert memory.gb_per_s == pytest.approx(64 / 1e-3 / 1e9)


@pytest.mark.parametrize("isa", cpu.supported())
def test_a_contender_runs_the_instruction_set_that_its_name_says(monkeypatch, isa: str) -> None:
    used = []
    monkeypatch.setattr(ops, "spmm", lambda A, B, **_: used.append(cpu.choose_isa(B.dtype)[0]))
    B = SimpleNamespace(dtype=torch.bfloat16)
    bench._forced(isa, B)(None)
    assert used == [isa]


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_follow_the_seed(seed: int) -> None:
    wanted = random_sparse(100, 200, 0.5, dtype=torch.bfloat16, seed=seed, mean=0.25)
    assert torch.equal(Weights(CASE, seed).dense, wanted)
