"""The command `lab bench`: tables, rows, and what it refuses."""

import csv
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from lab_utils import FORMATS, bench, ops, results
from lab_utils.backends import cpu
from lab_utils.baselines import BASELINES
from lab_utils.bench import eager, shares
from lab_utils.cli import main, measuring
from lab_utils.patterns import PATTERNS
from lab_utils.results import tables

ONE_MATRIX = ["bench", "--shape", "64x64", "--sparsity", "0.5", "--repeats", "2"]
SMALL = [*ONE_MATRIX, "--N", "1,2"]
TINY = [*SMALL, "--device", "cpu"]
ENCODE = [*ONE_MATRIX, "--device", "cpu", "--encode"]


def lab(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output


def test_lab_bench_prints_a_table_and_saves(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MEASURED", tmp_path)
    code, output = lab(*TINY, "--format", "csr,tca_bme", "--no-save")
    assert code == 0, output
    assert list(tmp_path.iterdir()) == []
    for word in ("kernel", "speed-up", "of limit", "p10-p90", "torch_mm", "csr_", "tca_bme_"):
        assert word in output
    code, output = lab(*TINY, "--format", "csr")
    file = next(tmp_path.glob("*/spmm.csv"))
    assert code == 0 and f"rows added to {file}" in output
    stored = results.measured("spmm")
    assert list(stored.N.unique()) == [1, 2] and len(stored) == 2 * 5


@pytest.mark.parametrize("command", ["bench", "eager", "shares"])
def test_a_models_shapes_take_the_place_of_the_default(monkeypatch, command: str) -> None:
    swept = []
    monkeypatch.setattr(measuring, "sweep", lambda table, summary, cases, *_, **__: swept.append(
        list(dict.fromkeys((case.M, case.K) for case in cases))))  # fmt: skip
    for module in (eager, shares):  # which want a GPU
        monkeypatch.setattr(module, "check", lambda formats: None)
    model = bench.shapes(models=["OPT-125M"])
    for options in (["--model", "opt-125m"], ["--model", "OPT-125M", "--shape", "64x32"], []):
        assert lab(command, "--format", "tca_bme", *options)[0] == 0
    assert swept[:2] == [model, [(64, 32), *model]] and (4096, 4096) in swept[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--N", "x"], "'x'; allowed: whole numbers"),
        (["--N", "8,,16"], "'8,,16' has an empty item; allowed: whole numbers"),
        (["--format", "csr,"], "'csr,' has an empty item; allowed: names"),
        (["--N", "0"], "N=0 must be"),
        (["--shape", "64"], "shape='64'; allowed: MxK"),
        (["--model", "gpt"], "'gpt' is unknown"),
        (["--sparsity", "50"], r"sparsity=50.0 must lie between 0 and 1"),
        (["--format", "coo"], "format='coo': not multiplied on the CPU"),
        (["--encode"], "--encode takes no --N, --isa or --baseline"),  # TINY has an --N
        (["--shape", f"{9 * 10**19}x2"], "M=90000000000000000000 is too large; allowed: at most 2"),
        (["--N", str(2**31)], "N=2147483648 is too large; allowed: at most 2147483647"),
        (["--output", ""], "'' is no folder; allowed: a path"),
        (["--dtype", "fp8"], "dtype='fp8'"),
        (["--pattern", "stripes"], "pattern='stripes'"),
        (["--isa", "neon"], "isa='neon': not on this CPU"),
        (["--repeats", "0"], "--repeats"),
        (["--baseline", "cublas_mm"], "of GPUs; name none on a CPU"),
        (["--device", "mps"], "device='mps'; allowed: cpu, cuda"),
        (["--device", "gpu"], "device='gpu'; allowed: cpu, cuda"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_lab_bench_refuses(arguments: list[str], message: str) -> None:
    code, output = lab(*TINY, "--no-save", *arguments)
    assert code == 2, output
    assert message in output
    assert "Traceback" not in output


def test_help_names_what_can_be_chosen() -> None:
    code, output = lab("bench", "--help")
    told = set(re.findall(r"[\w:]+", output))
    assert code == 0
    assert told >= {*FORMATS, *BASELINES, *PATTERNS, *cpu.ISAS}


def test_a_format_that_does_not_fit_is_left_out_and_named() -> None:
    code, output = lab(*TINY, "--no-save", "--format", "2:4", "--format", "csr")
    assert code == 1 and "2:4 holds two per group" in output
    assert "csr_" in output and "Traceback" not in output


def test_lab_bench_names_what_a_gpu_lacks(monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, output = lab(*SMALL, "--no-save", "--device", "cuda")
    assert code == 1
    assert "nothing can be measured on a GPU here: torch sees no CUDA device" in output


def test_lab_bench_goes_on_without_what_is_wrong(tmp_path: Path, monkeypatch) -> None:
    def one_wrong(A, B, **options):
        return right(A, B, **options) + (A.name == "csr" and B.shape[1] == 2)

    right = ops.spmm
    monkeypatch.setattr(ops, "spmm", one_wrong)
    code, output = lab(*TINY, "--format", "csr,tca_bme", "--output", str(tmp_path))
    assert code == 1
    assert "64x64, N=2, sparsity 0.5 (random), bf16: kernel csr_" in output
    assert "is wrong: 128 of 128 elements" in output and "1 measurement failed" in output
    formats = results.measured("spmm", tmp_path).groupby("N").kernel.agg(" ".join)
    assert "csr_" in formats[1] and "csr_" not in formats[2] and "tca_bme_" in formats[2]


def test_what_is_encoded_is_checked_before_it_is_timed(monkeypatch) -> None:
    monkeypatch.setattr(ops, "spmm", lambda A, B: torch.zeros(A.shape[0], B.shape[1]).bfloat16())
    code, output = lab(*ENCODE, "--no-save", "--format", "csr")
    assert code == 1 and "elements are wrong" in output, output


@pytest.mark.parametrize("option", ["--isa", "--baseline"])
def test_what_is_of_products_is_refused_for_encoders(option: str) -> None:
    code, output = lab(*ENCODE, "--no-save", option, "any")
    assert code == 2 and "--encode takes no --N, --isa or --baseline" in output


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_sweep_that_is_stopped_names_what_it_has_kept(sent, status, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab_utils.cli", *ONE_MATRIX, "--device", "cpu", "--N",
               ",".join(map(str, range(1, 129))), "--output", str(tmp_path)]  # fmt: skip
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **heeding)
    deadline = time.monotonic() + 60
    while not _second_case_has_rows(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(sent)
    printed = process.communicate(timeout=30)[0]
    assert process.returncode == status, printed
    (file,) = tmp_path.glob("*/spmm.csv")
    assert f"rows added to {file}" in printed


def _second_case_has_rows(folder: Path) -> bool:
    """So that those of the first one have not only been written, but are known to the command."""
    lines = [line for file in folder.glob("*/spmm.csv") for line in file.read_text().splitlines()]
    return len({row["N"] for row in csv.DictReader(lines)}) > 1


@pytest.mark.parametrize("table", ["spmm", "encode"])
def test_lab_bench_measures_nothing_that_it_could_not_write(
    table: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(bench, "sweep", lambda *_, **__: pytest.fail("measured"))
    monkeypatch.setattr(tables, "MEASURED", tmp_path / "file")
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "rows"
    command = ENCODE if table == "encode" else TINY
    code, output = lab(*command, "--output", str(folder))
    assert code == 1 and f"--output='{folder}': {tmp_path / 'file'} cannot be written" in output
    assert f"/{table}.csv can be written" in output and "Traceback" not in output
    code, output = lab(*command)
    assert code == 1 and f"--output='{tmp_path / 'file'}': " in output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_lab_bench_measures_encoders(tmp_path: Path) -> None:
    arguments = ["--format", "csr,tiled_csl", "--output", str(tmp_path)]
    code, output = lab(*ENCODE, *arguments)
    assert code == 0, output
    file = next(tmp_path.glob("*/encode.csv"))
    assert "dense GB/s" in output and f"rows added to {file}" in output
    stored = results.measured("encode", tmp_path)
    assert list(stored.format) == ["csr", "tiled_csl", "tiled_csl"]
    assert list(stored.options) == ["", "reorder=True", "reorder=False"]
    size = 2 * stored.M * stored.K
    assert np.allclose(stored.dense_gb_per_s, size / stored.time_us / 1e3, rtol=2e-4)
    assert (stored.p10_us <= stored.time_us).all() and (stored.time_us <= stored.p90_us).all()
