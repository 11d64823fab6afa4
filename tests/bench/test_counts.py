"""The emulator's counts held against a profiler's: a stand-in here, ncu on a GPU."""

import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from lab_utils import bench, ladder, machine, results, spmm
from lab_utils.analysis.agreement import COMPARED, SHARED, agreement, differences
from lab_utils.analysis.kernel_trace import OPERATIONS, Counts
from lab_utils.backends import cuda, emulator
from lab_utils.bench import counted, counts, nsight
from lab_utils.cli import main
from lab_utils.ladder import RUNGS

CASE = bench.Case(M=130, K=136, N=8, sparsity=0.5, dtype="fp16")
ORIGIN = {"date": "2026-01-01T00:00:00+00:00", "commit": "12e4567", "device": "gpu-a",
          "driver": "580", "cuda": "13.0"}  # fmt: skip
METRIC = COMPARED["wavefronts of loads"].ncu


def as_emulated(job: counts.Job, **changes: int) -> list[tuple[str, dict[str, str]]]:
    """What ncu would say of a job's launches if it agreed, but for `changes` of COMPARED."""
    trace, launches = counts.emulated(job), []
    for kernel in trace.kernels:
        values = {}
        for metric, one in COMPARED.items():
            totals = [trace.total(operation, kernel=kernel) for operation in one.operations]
            found = sum(getattr(total, one.field) for total in totals)
            values[one.ncu] = f"{changes.get(metric, found):,}"
        launches.append((kernel.split("<")[0], values))
    return launches


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A GPU and a profiler as far as `counts` can tell; call it with the answers for all jobs."""
    program = tmp_path / "ncu"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent}/fake_ncu.py "$@"')
    program.chmod(0o755)
    monkeypatch.setenv("NCU", str(program))
    monkeypatch.setenv("NCU_ANSWERS", str(tmp_path / "answers.json"))
    monkeypatch.setattr(cuda, "problem", lambda: None)
    monkeypatch.setattr(counts, "stamp", lambda device: ORIGIN)
    monkeypatch.setattr(machine, "device_name", lambda device: ORIGIN["device"])
    return lambda answers: (tmp_path / "answers.json").write_text(json.dumps(answers))


def test_what_is_compared_is_counted_by_both() -> None:
    for one in COMPARED.values():
        assert set(one.operations) <= set(OPERATIONS) and hasattr(Counts(), one.field)
    assert len({one.ncu for one in COMPARED.values()}) == len(COMPARED)
    assert set(SHARED) == set(COMPARED["wavefronts"].operations)


@pytest.mark.parametrize("kernel", counts.KERNELS)
def test_every_kernel_is_emulated_for_every_metric(kernel: str) -> None:
    job = counts.Job(kernel, CASE, 1)
    ((_, values), *more) = as_emulated(job)
    assert not more
    assert int(values[COMPARED["mma instructions"].ncu].replace(",", "")) > 0
    assert int(values[COMPARED["wavefronts"].ncu].replace(",", "")) > 0


def test_rows_of_every_launch(profiler) -> None:
    jobs = list(counts.jobs_of([CASE], ["tiled_csl", "tca_bme_3_pipeline"], (1, 2)))
    assert [(job.kernel, job.split_k) for job in jobs] == [
        ("tiled_csl", 1), ("tiled_csl", 2), ("tca_bme_3_pipeline", 1)]  # fmt: skip
    profiler([as_emulated(job) for job in jobs])
    rows = counts.measure_counts([CASE], ["tiled_csl", "tca_bme_3_pipeline"], splits=(1, 2))
    assert {frozenset(row) for row in rows} == {frozenset(results.COLUMNS["counts"])}
    frame = pd.DataFrame(rows)
    launches = frame[["kernel", "split_k", "function"]].drop_duplicates().values.tolist()
    assert launches == [
        ["tiled_csl_mma", 1, "tiled_csl"],
        ["tiled_csl_mma", 2, "tiled_csl"],
        ["tiled_csl_mma", 2, "add_partials"],
        ["tca_bme_3_pipeline", 1, "tca_bme_3_pipeline"],
    ]
    assert (frame.emulator == frame.ncu).all() and len(frame) == 4 * len(COMPARED)
    assert f"{len(frame)} of {len(frame)} counts are equal" in counts.count_summary(rows)


def test_differences_are_found_and_kept(profiler, tmp_path: Path) -> None:
    job = counts.Job("tca_bme", CASE, 1)
    off = {"wavefronts of loads": 1000, "shuffles": 0}
    profiler([as_emulated(job, **off)])
    arguments = ["counts", "--shape", "130x136", "--N", "8", "--sparsity", "0.5", "--split-k", "1"]
    done = CliRunner().invoke(main, [*arguments, "--kernel", "tca_bme", "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert f"{len(COMPARED) - 2} of {len(COMPARED)} counts are equal" in done.output
    rows = results.measured("counts", tmp_path)
    table = agreement(rows)
    assert table.equal.to_dict() == {metric: int(metric not in off) for metric in COMPARED}
    loads = rows[rows.metric.eq("wavefronts of loads")].iloc[0]
    assert loads.ncu == 1000 and table.most["wavefronts of loads"] == 1000 / loads.emulator
    assert set(differences(rows)) == set(off)
    assert differences(rows)["shuffles"].tolist() == [-1.0]


def test_what_the_profiler_lacks_is_named(profiler) -> None:
    job = counts.Job("tca_bme", CASE, 1)
    ((function, values),) = as_emulated(job)
    profiler([[(function, values | {METRIC: "n/a"})]])
    rows = counts.measure_counts([CASE], ["tca_bme"])
    assert {row["metric"] for row in rows} == set(COMPARED) - {"wavefronts of loads"}
    assert f"ncu does not know {METRIC} here" in counts.count_summary(rows)
    for answer, message in (
        ([(function, {})], f"ncu did not measure .*{METRIC}"),
        ([("gemm", values)], r"ncu saw \['gemm'\], the emulator ran \['tca_bme'\]"),
        ([], "expected kernels of 1 products between marks"),
    ):
        profiler([answer])
        with pytest.raises(RuntimeError, match=message):
            counts.measure_counts([CASE], ["tca_bme"])


def test_a_profiler_that_fails_is_quoted(profiler) -> None:
    profiler([])  # which the stand-in finds to be too few
    with pytest.raises(RuntimeError, match=r"(?s)ncu failed: .*AssertionError"):
        counts.measure_counts([CASE], ["tca_bme"])


def test_refusals(profiler, monkeypatch: pytest.MonkeyPatch) -> None:
    for change, message in (
        ({"kernels": ["csr"]}, "kernel='csr': unknown; allowed: tiled_csl, tca_bme, tiled_csl_1"),
        ({"splits": (0,)}, "split_k=0; allowed: 1 or more"),
        ({"cases": [bench.Case(64, 100, 8, 0.5)]}, "K=100; allowed: multiples of 8"),
    ):
        arguments = {"cases": [CASE], "kernels": ["tca_bme"]} | change
        with pytest.raises(ValueError, match=message):
            counts.measure_counts(**arguments)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match=r"Nsight Compute \(ncu\) not found"):
        counts.measure_counts([CASE], ["tca_bme"])


@pytest.mark.skipif(cuda.problem() is None, reason="says why only where there is no GPU")
def test_lab_counts_says_what_is_missing() -> None:
    done = CliRunner().invoke(main, ["counts", "--shape", "64x64"])
    assert done.exit_code == 1 and "nothing can be measured on a GPU here" in done.output


@pytest.mark.parametrize(
    "name",
    [
        "void lscd::<unnamed>::tca_bme<__half, (int)16>(lscd::Problem)",
        "void lscd::(anonymous namespace)::tca_bme<__half, 16>(lscd::Problem)",
        "void tca_bme<__nv_bfloat16, 8>(Problem)",
        "tca_bme(Problem)",
        "tca_bme",
    ],
)
def test_functions_by_any_name_the_profiler_gives_them(name: str) -> None:
    assert nsight.function_name({nsight.NAME: ("", name)}) == "tca_bme"


@pytest.fixture
def emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator in the place of a GPU, for the program that the profiler watches."""

    def published(A, B, C, split_k):
        with emulator.recording(split_k=split_k):
            C.copy_(spmm(A, B, backend="emulator"))

    def rung(A, B, C, split_k):
        C.copy_(ladder.emulate(A, B, split_k=split_k)[0])

    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    monkeypatch.setattr(counted, "watch", lambda launch: launch())
    monkeypatch.setattr(cuda, "spmm", published)
    monkeypatch.setattr(ladder, "spmm", rung)


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize("kernel", counts.KERNELS)
def test_the_watched_program_checks_its_products(kernel: str, monkeypatch) -> None:
    assert 0 <= counted.count(kernel, CASE, split_k=2, seed=0) < 1e-3
    monkeypatch.setattr(counted, "watch", lambda launch: None)  # C stays NaN
    with pytest.raises(AssertionError, match="elements"):
        counted.count(kernel, CASE, split_k=2, seed=0)


@pytest.mark.gpu
@pytest.mark.usefixtures("ncu")
def test_ncu_counts_what_the_emulator_counts() -> None:
    """Fragments and products leave a compiler nothing to join: their counts must be equal."""
    rows = pd.DataFrame(counts.measure_counts([CASE], ["tca_bme", next(iter(RUNGS))]))
    assert set(rows.kernel) == {"tca_bme_mma", next(iter(RUNGS))}
    equal = rows.emulator.eq(rows.ncu).groupby(rows.metric).all()
    assert equal[["mma instructions", "ldmatrix", "wavefronts of ldmatrix"]].all()
