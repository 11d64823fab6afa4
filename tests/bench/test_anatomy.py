"""Anatomy of kernels: what is left out, what the profiler says, and what follows from the rows."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from gpu_formats import kernels_of

from lab_utils import bench, catalog, encode, results
from lab_utils.analysis import anatomy as a
from lab_utils.backends import cuda
from lab_utils.bench import anatomy, counters, nsight
from lab_utils.bench.profiled import CUBLAS, MARK
from lab_utils.cli import main, measuring
from lab_utils.patterns import random_sparse

CASE = bench.Case(M=300, K=520, N=8, sparsity=0.7, dtype="fp16")
ORIGIN = {"date": "2026-01-01T00:00:00+00:00", "commit": "12e4567", "device": "gpu-a",
          "driver": "580", "cuda": "13.0"}  # fmt: skip
STALLED = {"long_scoreboard": 6.0, "barrier": 3.0, "selected": 1.0}


def stage_rows(kernel: str, **times_us: float) -> list[dict]:
    common = ORIGIN | vars(CASE) | {"kernel": kernel, "split_k": 2}
    return [
        common | {"left_out": stage, "time_us": us, "p10_us": us - 1, "p90_us": us + 1}
        for stage, us in times_us.items()
    ]


def values(**changes: float) -> dict[str, float]:
    """Values of every metric that a kernel's rows hold, by name."""
    stalls = {f"{a.STALL_PREFIX}{name}{a.STALL_SUFFIX}": x for name, x in STALLED.items()}
    return dict.fromkeys(counters.METRICS, 50.0) | stalls | {a.TIME: 2e5} | changes


def counter_rows(kernel: str) -> list[dict]:
    common = ORIGIN | vars(CASE) | {"kernel": kernel, "split_k": 1, "unit": ""}
    return [common | {"metric": name, "value": value} for name, value in values().items()]


def table(*kernels: tuple[str, dict[str, object]], before: str = "==PROF== Connected\n") -> str:
    """What `ncu --csv --page raw` writes."""
    names = list(values())
    lines = [["ID", "Kernel Name", *names], ["", "", *("%" for _ in names)]]
    lines += [[i, name, *of.values()] for i, (name, of) in enumerate(kernels)]
    quoted = [",".join(f'"{cell}"' for cell in line) for line in lines]
    return before + "\n".join(quoted) + "\n==WARNING== something\n"


# --- rows -----------------------------------------------------------------------------------------


def test_costs_are_what_is_saved_of_the_same_run() -> None:
    rows = stage_rows("tca_bme_mma", nothing=100.0, decode=60.0, ld_dense=101.0)
    rows += [row | {"date": "2027"} for row in stage_rows("tca_bme_mma", nothing=50.0, decode=40.0)]
    costs = a.stage_costs(pd.DataFrame(rows))
    assert costs.cost_us.tolist() == [40.0, -1.0, 10.0]
    assert costs.cost.tolist() == [0.4, -0.01, 0.2]


def test_costs_need_the_whole_kernel() -> None:
    with pytest.raises(ValueError, match="lack a whole kernel"):
        a.stage_costs(pd.DataFrame(stage_rows("tca_bme_mma", decode=60.0)))


def test_summaries_for_a_terminal() -> None:
    rows = stage_rows("tca_bme_mma", decode=60.0, nothing=100.0) + stage_rows("x", nothing=5.0)
    lines = anatomy.stage_summary(rows).splitlines()
    assert lines[1].split() == ["left_out", "nothing", "decode"]
    assert lines[3].split() == ["tca_bme_mma", "300", "520", "8", "0.7", "100.0", "60.0"]
    assert lines[4].split()[-1] == "5.0"
    text = counters.counter_summary(counter_rows("tca_bme_mma"))
    assert "time (µs)" in text and "HBM" in text and "tca_bme_mma" in text


def test_unit_use_adds_the_useful_part_of_the_tensor_core() -> None:
    use = a.unit_use(pd.DataFrame(counter_rows("cublas_mm")), peak_tflops=100.0)
    percent = use.set_index("unit").percent
    assert list(percent.index) == [*a.UNITS, a.USEFUL]
    assert percent["HBM"] == 50.0
    assert percent[a.USEFUL] == pytest.approx(2 * 300 * 520 * 8 / 2e5 / 1e3)  # % of 100 TFLOP/s


def test_stalls_are_shares_largest_first() -> None:
    rows = pd.DataFrame(counter_rows("a_mma") + counter_rows("b_mma"))
    shares = a.stalls(rows)
    assert shares.iloc[:, 0].to_dict() == {"long_scoreboard": 0.6, "barrier": 0.3, "selected": 0.1}
    assert list(shares.index) == ["long_scoreboard", "barrier", "selected"]
    assert shares.shape == (3, 2)


def test_facts_are_scaled_to_their_units() -> None:
    facts = a.facts(pd.DataFrame(counter_rows("a_mma"))).iloc[0]
    assert facts["time (µs)"] == 200.0
    assert facts["read from HBM (MB)"] == pytest.approx(50e-6)
    assert facts["instructions per 64 weights"] == pytest.approx(50 * 64 / (300 * 520))
    assert facts["registers per thread"] == 50.0


def test_budget_is_the_one_measured_on_an_h200() -> None:
    """Clocks per 64 weights at 18.5 bytes per SM and clock: 3.9 at 50 %, 1.8 at 80 %."""
    device = replace(catalog.device("H200-SXM"), bandwidth_gb_s=18.5 * 132 * 1.83)
    for sparsity, clocks in ((0.5, 3.9), (0.8, 1.8)):
        found = a.budget(device, "tca_bme", 36864, 9216, sparsity)
        assert found["clocks"] == pytest.approx(clocks, abs=0.06)
        assert found["instructions"] == 4 * found["clocks"]


# --- the profiler ---------------------------------------------------------------------------------


def test_the_profilers_table_becomes_rows() -> None:
    text = table(("void FillFunctor<float>", values()), ("gemm", values(**{a.TIME: "1,234.5"})))
    _, kernel = nsight.parse(text)
    rows = {row["metric"]: row for row in counters.rows_of(kernel)}
    assert set(rows) == set(values()) and {row["unit"] for row in rows.values()} == {"%"}
    assert rows[a.TIME]["value"] == 1234.5


def test_of_several_kernels_of_a_product_the_longest_counts() -> None:
    mark = (f"at::native::{MARK}<float>", values())
    short, long = ("reduce", values(**{a.TIME: 5.0})), ("gemm", values(**{a.TIME: 9.0}))
    found = list(nsight.parse(table(mark, long, short, mark, short)))
    jobs = nsight.by_job(found, 2)
    names = [counters.longest(launches)["Kernel Name"][1] for launches in jobs]
    assert names == ["gemm", "reduce"]
    for jobs in (1, 3):
        with pytest.raises(RuntimeError, match=f"expected kernels of {jobs} products"):
            nsight.by_job(found, jobs)


def test_what_the_profiler_lacks_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)measured nothing.*No kernels were profiled"):
        list(nsight.parse("==PROF== Connected\n==WARNING== No kernels were profiled.\n"))
    (kernel,) = nsight.parse(table(("gemm", values(**{a.TIME: "n/a"}))))
    with pytest.raises(RuntimeError, match=f"did not measure {a.TIME}"):
        list(counters.rows_of(kernel))


def test_cublas_is_profiled_once_for_all_sparsities() -> None:
    cases = list(bench.grid([(64, 64)], [8, 16], [0.5, 0.8], dtype="fp16"))
    jobs = list(counters.jobs_of(cases, ["tca_bme", "tiled_csl"]))
    assert len(jobs) == 2 * 4 + 2
    dense = [case for kernel, case in jobs if kernel == CUBLAS]
    assert [(case.N, case.sparsity) for case in dense] == [(8, 0.5), (16, 0.5)]


# --- refusals, and the GPU ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formats": ["csr"]}, "format='csr': no stages known; allowed: tiled_csl, tca_bme"),
        ({"device": "cpu"}, "device='cpu'; allowed: cuda"),
        ({"repeats": 0}, "repeats=0 must be a whole number of at least 1"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    arguments = {"formats": ["tca_bme"], "device": "cuda"} | change
    with pytest.raises(ValueError, match=message):
        anatomy.measure_stages(CASE, **arguments)


def with_headers(path: Path) -> str:
    """A source, and the headers of its folder that it includes, and theirs."""
    text = path.read_text()
    headers = re.findall(r'#include "(\w+\.cuh)"', text)
    return text + "".join(with_headers(path.parent / header) for header in headers)


def test_stages_are_those_of_the_kernels(root: Path) -> None:
    header = (root / "kernels" / "common" / "stages.cuh").read_text()
    declared = set(re.search(r"enum class Stage \{ (.*?) \}", header)[1].split(", ")) - {"none"}
    assert declared == {stage for stages in a.STAGES.values() for stage in stages}
    assert set(a.STAGES) <= set(cuda.formats)
    for format, stages in a.STAGES.items():
        hopper = {
            "zero_row_24": "hopper_mma", "zero_row_24_strips": "hopper_wgmma",
            "lane_24_strips": "hopper_wgmma_lanes", "bitmap_strips": "hopper_wgmma_bitmap",
            "coded_strips": "hopper_wgmma_coded",
        }  # fmt: skip
        name = hopper.get(format, format)
        folder = root / "kernels" / "spmm"
        source = with_headers(folder / f"{name}.cu")
        assert set(re.findall(r"Stage::(\w+)", source)) == set(stages)


def test_lab_anatomy_refuses() -> None:
    done = CliRunner().invoke(main, ["anatomy", "--format", "csr"])
    assert done.exit_code == 2 and "format='csr': no stages known" in done.output


def test_counters_are_read_where_a_stage_failed(monkeypatch) -> None:
    monkeypatch.setattr(nsight, "path", lambda: "ncu")
    monkeypatch.setattr(anatomy, "check", lambda formats: None)
    monkeypatch.setattr(measuring, "sweep", lambda *_, **__: 1)
    monkeypatch.setattr(counters, "measure_counters", lambda *_: counter_rows("tca_bme_mma"))
    done = CliRunner().invoke(main, ["anatomy", "--format", "tca_bme", "--no-save"])
    assert done.exit_code == 1
    assert done.output.startswith(counters.counter_summary(counter_rows("tca_bme_mma")))


@pytest.mark.skipif(cuda.problem() is None, reason="says why only where there is no GPU")
@pytest.mark.parametrize("part", ["--no-stages", "--no-counters"])
def test_lab_anatomy_says_what_is_missing(part: str) -> None:
    done = CliRunner().invoke(main, ["anatomy", "--shape", "64x64", "--N", "8", part])
    assert done.exit_code == 1 and "nothing can be measured on a GPU here" in done.output


def test_lab_anatomy_looks_for_the_profiler_before_it_measures(monkeypatch) -> None:
    monkeypatch.setattr(anatomy, "check", lambda formats: None)  # as where there is a GPU
    monkeypatch.setattr(bench, "sweep", lambda *_, **__: pytest.fail("measured"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    small = ["anatomy", "--shape", "64x64", "--N", "8", "--format", "tca_bme", "--no-save"]
    done = CliRunner().invoke(main, small)
    assert done.exit_code == 1 and "Nsight Compute (ncu) not found" in done.output


@pytest.mark.gpu
def test_lab_anatomy_keeps_rows(tmp_path: Path) -> None:
    arguments = ["anatomy", "--shape", "256x512", "--N", "8", "--sparsity", "0.5", "--no-counters"]
    done = CliRunner().invoke(main, [*arguments, "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    stored = results.measured("stages", tmp_path)
    assert len(stored) == sum(1 + len(a.STAGES[format]) for format in anatomy.multiplied_formats())


@pytest.mark.gpu
@pytest.mark.usefixtures("ncu")
def test_counters_of_every_kernel() -> None:
    formats = anatomy.multiplied_formats()
    rows = counters.measure_counters([CASE], formats)
    assert set(rows[0]) == set(results.COLUMNS["counters"])
    assert {row["kernel"] for row in rows} == {CUBLAS, *(kernels_of(name)[0] for name in formats)}


@pytest.mark.gpu
def test_every_stage_can_be_left_out() -> None:
    formats = anatomy.multiplied_formats()
    rows = anatomy.measure_stages(CASE, formats, repeats=3)
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert set(rows[0]) == set(results.COLUMNS["stages"])
    for format in formats:
        left_out = [row["left_out"] for row in rows if row["kernel"].startswith(format)]
        assert left_out == [a.NOTHING, *a.STAGES[format]]
    assert all(0 < row["p10_us"] <= row["time_us"] <= row["p90_us"] for row in rows)


@pytest.mark.gpu
@pytest.mark.parametrize(("format", "stage"), [(f, s) for f, all in a.STAGES.items() for s in all])
def test_a_kernel_without_a_stage_is_wrong(format: str, stage: str) -> None:
    if reason := cuda.format_problem(format, torch.device("cuda")):
        pytest.skip(reason)
    W = random_sparse(256, 1024, 0.5, device="cuda")
    A, B = encode(W, format), torch.randn(8, 1024, device="cuda").half().T
    whole, without = (torch.empty(256, 8, dtype=W.dtype, device="cuda") for _ in range(2))
    cuda.spmm(A, B, whole, split_k=1)
    cuda.spmm(A, B, without, split_k=1, left_out=stage)
    assert not torch.equal(whole, without)
