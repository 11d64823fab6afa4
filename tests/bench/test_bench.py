"""Measuring: exact rows, wrong kernels caught, bad input refused. Nothing here asserts on time."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from gpu_rows import gpu_rows
from small import CASES, COLD_BYTES, FORMATS, PIECE_BYTES

from lab_utils import accuracy, bench, machine, ops, results
from lab_utils.backends import cpu
from lab_utils.bench import Case, Weights, encoders, grid, measure, operands, sweep
from lab_utils.bench import cpu as contenders
from lab_utils.bench.measuring import spmm_summary


def test_rows_have_the_columns_of_the_table(rows: pd.DataFrame) -> None:
    assert set(rows.columns) == set(results.COLUMNS["spmm"]) and not rows.isna().any().any()
    isa = cpu.choose_isa(torch.bfloat16)[0]
    always = {"torch_mm", "torch_linear"} | {f"{format}_{isa}" for format in ["dense", *FORMATS]}
    kernels = rows.groupby(list(results.CASE)).kernel.agg(set)
    assert len(kernels) == len(CASES) and all(names >= always for names in kernels)
    for (_, _, N, *_), names in kernels.items():
        assert names - always == ({"torch_mm_padded"} if N < contenders.PADDED_N else set())


def test_rows_are_consistent(rows: pd.DataFrame) -> None:
    flops = 2.0 * rows.M * rows.K * rows.N
    assert np.allclose(rows.speedup, rows.dense_us / rows.time_us, rtol=2e-4)
    assert np.allclose(rows.gb_per_s, rows.encoded_bytes / rows.time_us / 1e3, rtol=2e-4)
    assert np.allclose(rows.tflops, flops / rows.time_us / 1e6, rtol=2e-4)
    assert (rows.p10_us <= rows.time_us).all() and (rows.time_us <= rows.p90_us).all()
    assert (rows.time_us > 0).all() and (rows.byte_limit_fraction > 0).all()
    dense = rows[rows.kernel.str.startswith(("torch", "dense"))]
    best = dense.groupby(list(results.CASE)).time_us.min()
    stated = rows.groupby(list(results.CASE)).dense_us.agg(["min", "max"])
    assert (stated["min"] == best).all() and (stated["max"] == best).all()
    assert rows.relative_error.between(0, accuracy.ROUNDING[torch.bfloat16]).all()


def test_bandwidth_is_that_of_the_run(rows: pd.DataFrame) -> None:
    """All kernels of a case were held against the same byte limit."""
    bandwidth = rows.gb_per_s / rows.byte_limit_fraction
    for _, of_case in bandwidth.groupby([rows[name] for name in results.CASE]):
        assert np.allclose(of_case, of_case.median(), rtol=2e-4)


def test_a_summary_puts_the_fastest_first() -> None:
    rows = gpu_rows([(1024, 512)], Ns=(8, 1), sparsities=(0.5,))
    head, titles, *body = spmm_summary(rows).splitlines()
    assert head == "h200, fp16, random zeros, memory reads 4600.0 GB/s"
    assert titles.split()[:4] == ["shape", "zeros", "N", "kernel"]
    by_time = rows.sort_values(["N", "time_us"], kind="stable")
    expected = [[str(N), kernel] for N, kernel in zip(by_time.N, by_time.kernel, strict=True)]
    assert [line.split()[2:4] for line in body] == expected


def ticking(step: float) -> SimpleNamespace:
    """A clock that goes on by `step` seconds whenever it is asked."""
    ticks = itertools.count()
    return SimpleNamespace(perf_counter=lambda: step * next(ticks))


@pytest.mark.parametrize("module", [contenders, encoders])
def test_times_are_microseconds(module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", ticking(0.002))
    if module is encoders:
        times = [encoders._microseconds(lambda: None, torch.device("cpu"))] * 3
    else:
        turns = SimpleNamespace(count=2, next=lambda: None)
        one = SimpleNamespace(copies=turns, run=lambda weights: None, times_us=[])
        contenders._time_in_turns([one], 3)
        times = one.times_us
    assert times == pytest.approx([2000.0] * 3)


def test_a_summary_warns_of_unsteady_times() -> None:
    rows = gpu_rows([(1024, 512)], Ns=(8,), sparsities=(0.5,))
    steady = rows.assign(p10_us=0.9 * rows.time_us, p90_us=1.1 * rows.time_us)
    assert "unsteady" not in spmm_summary(steady)
    busy = rows.assign(p10_us=0.9 * rows.time_us, p90_us=1.3 * rows.time_us)
    *_, last = spmm_summary(busy).splitlines()
    assert last.startswith("unsteady: from p10 to p90, times vary by 40% of the median")


def test_wrong_kernel_is_caught_before_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_wrong(A, B, **options):
        C = right(A, B, **options)
        if A.name == "csr":
            C[5, 0] += 1
        return C

    def time_nothing(*_):
        pytest.fail("timed")

    right = ops.spmm
    monkeypatch.setattr(ops, "spmm", one_wrong)
    monkeypatch.setattr(contenders, "_time_in_turns", time_nothing)
    with pytest.raises(AssertionError, match=r"csr_\w+ is wrong: 1 of 96 elements.*C\[5, 0\]"):
        measure(CASES[0], FORMATS)


def test_no_launch_finds_its_weights_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two launches with the same copy, more is read than the caches hold."""
    read: list[tuple[int, int]] = []  # address and bytes, in order

    def noting(run):
        def noted(weights):
            array = weights if isinstance(weights, torch.Tensor) else next(iter_arrays(weights))
            read.append((array.data_ptr(), weights.nbytes))
            return run(weights)

        return noted

    def iter_arrays(matrix):
        return iter(matrix.arrays.values())

    def in_turns(contenders, repeats):
        read.clear()
        for contender in contenders:
            contender.run = noting(contender.run)
        time_in_turns(contenders, repeats)

    time_in_turns = contenders._time_in_turns
    monkeypatch.setattr(contenders, "_time_in_turns", in_turns)
    measure(Case(256, 256, 1, 0.5), FORMATS, isas=cpu.supported()[:1], repeats=6)
    for i, (address, _) in enumerate(read):
        again = next((j for j in range(i + 1, len(read)) if read[j][0] == address), None)
        if again is not None:
            assert sum(nbytes for _, nbytes in read[i + 1 : again]) >= COLD_BYTES - PIECE_BYTES


def test_sweep_shares_weights_between_Ns(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(operands, "Weights", lambda *args: made.append(args) or Weights(*args))
    kept = []
    sweep(grid([(64, 64)], [1, 2, 3], [0.5, 0.6]), ["csr"], repeats=1, keep=kept.append)
    assert len(made) == 2
    assert [group[0]["N"] for group in kept] == [1, 2, 3, 1, 2, 3]
    assert all(len({(row["N"], row["sparsity"]) for row in group}) == 1 for group in kept)


def test_interrupted_sweep_keeps_what_is_measured() -> None:
    kept = []

    def interrupted(cases):
        yield cases[0]
        yield cases[1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(CASES, ["csr"], repeats=1, progress=interrupted, keep=kept.append)
    assert len(kept) == 2


def test_two_four_can_be_measured() -> None:
    found = pd.DataFrame(measure(Case(64, 64, 1, 0.5, pattern="two_four"), ["2:4"], repeats=1))
    assert found.kernel.str.startswith("2:4_").any()


def test_every_instruction_set_is_a_row() -> None:
    found = pd.DataFrame(measure(CASES[1], ["csr"], isas=cpu.supported(), repeats=1))
    assert {f"csr_{isa}" for isa in cpu.supported()} <= set(found.kernel)
    assert found.kernel.is_unique


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M": 0}, "M=0 must be"),
        ({"N": 1.5}, r"N=1\.5 must be"),
        ({"sparsity": 1.2}, r"sparsity=1\.2 must lie"),
        ({"sparsity": float("nan")}, "sparsity=nan must lie"),
        ({"dtype": "fp8"}, "dtype='fp8'.*allowed: fp16, bf16"),
        ({"sparsity": 0.3, "pattern": "two_four"}, r"sparsity=0\.3 must be at least 0\.5"),
        ({"pattern": "stripes"}, "pattern='stripes'.*allowed: random"),
    ],
)
def test_bad_cases_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Case(**{"M": 8, "K": 8, "N": 1, "sparsity": 0.5} | change)


def test_bad_measurements_are_refused() -> None:
    with pytest.raises(ValueError, match="format='coo'.*allowed: dense, csr"):
        measure(CASES[0], ["coo"])
    with pytest.raises(ValueError, match="repeats=0"):
        measure(CASES[0], ["csr"], repeats=0)
    with pytest.raises(ValueError, match="this case needs"):
        measure(CASES[0], ["csr"], weights=Weights(CASES[-1]))
    with pytest.raises(ValueError, match="multiplies bf16 only"):
        isas = [isa for isa in cpu.supported() if isa in cpu.BF16_ONLY]
        if not isas:
            pytest.skip("this CPU has no bf16 instructions")
        measure(Case(8, 8, 1, 0.5, "fp16"), ["csr"], isas=isas)


def test_shapes_of_texts_and_models() -> None:
    found = bench.shapes(["64x32", "64X32"], ["opt-125m"])
    assert found == [(64, 32), (2304, 768), (768, 768), (3072, 768), (768, 3072)]
    for text in ("64", "64x", "0x4", "axb", "4x4x4"):
        with pytest.raises(ValueError, match=f"shape='{text}'; allowed: MxK"):
            bench.shapes([text])
    with pytest.raises(ValueError, match=r"'opt-3b' is unknown; allowed: OPT-125M"):
        bench.shapes(models=["opt-3b"])


@pytest.mark.parametrize("name", ["shapes", "Ns", "sparsities"])
def test_a_grid_without_cases_is_refused(name: str) -> None:
    lists = {"shapes": iter([(64, 64)]), "Ns": [1], "sparsities": [0.5]}
    assert len(list(grid(**lists))) == 1
    with pytest.raises(ValueError, match=rf"{name}=\[\]: empty; allowed: one item or more"):
        list(grid(**(lists | {"shapes": [(64, 64)]} | {name: []})))


def test_matrices_larger_than_memory_are_refused_before_any_is_measured(monkeypatch) -> None:
    cases, kept = list(grid([(64, 64), (128, 100)], [8], [0.5])), []
    needed = 18 * (128 * 100 + 100 * 8) + 24 * 128 * 8  # operands and the result
    monkeypatch.setattr(machine, "memory_bytes", lambda: needed - 1)
    message = (
        r"shape=128x100, N=8: .* at least 0\.0 GB; allowed: what fits the 0\.0 GB of this machine"
    )
    with pytest.raises(RuntimeError, match=message):
        sweep(cases, ["csr"], repeats=1, keep=kept.append)
    with pytest.raises(RuntimeError, match=message):
        measure(cases[1], ["csr"], repeats=1)
    assert not kept
    monkeypatch.setattr(machine, "memory_bytes", lambda: needed)
    assert len(sweep(cases, ["csr"], repeats=1))


def test_a_case_that_is_named_again_is_measured_once() -> None:
    lists = {"shapes": [(64, 64), [64, 64]], "Ns": [8, 1, 8], "sparsities": [0.5, 0.5]}
    assert [(case.N, case.sparsity) for case in grid(**lists)] == [(8, 0.5), (1, 0.5)]
